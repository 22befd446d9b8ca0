Feature: 6 The life of a request

  Rule: 6.2 A key goes to the first in line

    @S-6.2-fifo @core @must @timed
    Scenario: Three who wait are granted in the order in which they asked
      Given 1 holds door
      And 2 waits for door
      And 3 waits for door
      And 4 waits for door
      When 1 releases door
      Then 2 is granted door
      And 3 has received nothing
      And 4 has received nothing
      When 2 releases door
      Then 3 is granted door
      And 4 has received nothing
      When 3 releases door
      Then 4 is granted door

    @S-6.2-at-once @core @must @timed
    Scenario: A released key is handed over in the same instant
      Given 1 holds door
      And 2 waits for door
      When 1 releases door
      Then 2 is granted door at once

    @S-6.2-end-of-the-line @core @must @timed
    Scenario: Who asks again stands behind those who wait already
      Given 1 holds door
      And 2 waits for door
      When 1 sends in one piece:
        """
        R door {1:door}
        A door 0 5
        """
      Then 1 receives "R door {1:door}"
      And 2 is granted door
      When 3 waits for door
      And 2 releases door
      Then 1 is granted door
      And 3 has received nothing
      When 1 releases door
      Then 3 is granted door

    @S-6.2-no-barging @core @must
    Scenario: Nobody gets in between a release and the next in line
      The release and an acquire that does not queue come in one piece, with
      another connection in line: the key is not free for a moment.
      Given 1 holds door
      And 2 waits for door
      When 1 sends in one piece:
        """
        R door {1:door}
        A door -1 5
        """
      Then 2 is granted door
      And 1 receives "T door"

    @S-6.2-fifo-after-a-lease @core @must @timed
    Scenario: The end of a lease hands over in the same order
      Given 1 holds door with a lease of 1 s
      And 2 waits for door
      And 3 waits for door
      Then 2 is granted door when the lease of 1 ends
      And 3 has received nothing

    @S-6.2-one-holder @core @must @timed
    Scenario: A release grants to one only
      Given 1 holds door
      And 2 waits for door
      And 3 waits for door
      When 1 releases door
      Then 2 is granted door
      And 3 receives nothing for 1 s

    @S-6.2-own-key @core @must
    Scenario: Each key has a line of its own
      Given 1 holds door
      And 1 holds window
      And 2 waits for door
      And 3 waits for window
      When 1 releases window
      Then 3 is granted window
      And 2 has received nothing

    @S-6.2-mixed-limits @core @must @timed
    Scenario: A limit gives nobody a better place
      Given 1 holds door
      And 2 waits for door
      And 3 waits for door for at most 5 s
      And 4 waits for door for at most 1 s
      When 1 releases door
      Then 2 is granted door within 100 ms
      And 3 has received nothing
      When 2 releases door
      Then 3 is granted door within 100 ms

    @S-6.2-fifo-after-a-cancel @resume @must @timed
    Scenario: The end of a grant by a cancel hands the key to the first in line, too
      Given 1 holds door under the nonce n1
      And 2 waits for door
      And 3 waits for door
      When 4 sends "C door n1"
      Then 2 is granted door within 100 ms
      And 3 receives nothing for 0.3 s

    @S-6.2-no-barging-at-the-end @core @must @timed
    Scenario: Nobody pushes in when a lease ends
      Given 1 holds door with a lease of 0.5 s
      And 2 waits for door
      Then 3 asks for door without a wait for 0.9 s, and is never granted it
      And 2 is granted door

    @S-6.2-two-of-one @core @must @timed
    Scenario: Two places of one connection are places like any other
      Given 1 holds door
      And 2 waits for door with a lease of 4 s
      And 2 waits for door with a lease of 3 s
      And 3 waits for door
      When 1 releases door
      Then 2 is granted door with a lease of 4 s
      When 2 releases door
      Then 2 is granted door with a lease of 3 s
      And 3 receives nothing for 0.3 s

  Rule: 6.3 A request whose limit has passed is never granted

    @S-6.3-not-after-the-limit @core @must @timed
    Scenario: Two limits pass, then the lease ends: neither is granted
      Given 1 holds door with a lease of 1.5 s
      And 2 waits for door for at most 0.3 s
      And 3 waits for door for at most 0.6 s
      And 4 waits for door
      Then 2 receives "T door"
      And 3 receives "T door"
      And 4 is granted door when the lease of 1 ends
      And 2 receives nothing for 0.5 s
      And 3 has received nothing

    @S-6.3-others-stay @core @must @timed
    Scenario: Those behind a request whose limit passed keep their order
      Given 1 holds door
      And 2 waits for door for at most 0.3 s
      And 3 waits for door
      And 4 waits for door
      Then 2 receives "T door"
      When 1 releases door
      Then 3 is granted door within 100 ms
      When 3 releases door
      Then 4 is granted door within 100 ms

  Rule: 6.4 A line may be limited, and should hold 1,000

    @S-6.4-thousand @core @should @timed
    Scenario: A thousand may wait for one key
      The last one is on a connection of its own: a refusal on the others would
      be held back behind their older requests. The releases tell that those
      have been read.
      When 2 sends 500 acquires, for 1 keys that 1 holds
      And 3 sends 499 acquires for door1
      And 2 sends "R door1 1"
      And 3 sends "R door1 1"
      Then 2 receives "E R door1 not-held"
      And 3 receives "E R door1 not-held"
      When 4 waits for door1
      Then 4 receives nothing for 0.5 s

    @S-6.4-queue-full @limits @must @needs-waiters-per-key
    Scenario: Beyond the limit an acquire is refused, and leaves nothing
      Given 1 holds door
      And as many wait for door as the server allows
      When 2 sends "A door 0 5"
      Then 2 receives "E A door queue-full"
      And 2 still works
      When 2 sends "A door -1 5"
      Then 2 receives "T door"

    @S-6.4-take-over @limits @must @needs-waiters-per-key @needs-resume
    Scenario: To take a place over needs no new one
      Given 1 holds door
      And 2 waits for door under the nonce n1
      And as many wait for door as the server allows
      When 3 sends "A door 0 5 n1"
      Then 2 receives "E A door superseded"
      And 3 has received nothing

  Rule: 6.5 A dropped connection leaves the line and keeps what it holds

    @S-6.5-waiter-leaves @core @must @timed
    Scenario Outline: A waiter whose connection ends leaves the line at once
      Given 1 holds door
      And 2 waits for door
      And 3 waits for door
      When 2 <ends>
      And 1 releases door
      Then 3 is granted door within 100 ms

      Examples:
        | name       | ends           |
        | closed     | drops          |
        | reset      | resets         |
        | half-close | ends its input |

    @S-6.5-holder-keeps @core @must
    Scenario Outline: What a connection holds stays held when it ends
      Given 1 holds door
      When 1 <ends>
      Then door is held
      When 2 sends "R door {1:door}"
      Then 2 receives "R door {1:door}"
      And door is free

      Examples:
        | name       | ends           |
        | closed     | drops          |
        | reset      | resets         |
        | half-close | ends its input |

    @S-6.5-lease-goes-on @core @must @timed
    Scenario: The lease of a holder that dropped goes on, and ends
      Given 1 holds door with a lease of 1.5 s
      And 2 waits for door
      When 1 drops
      Then 2 is granted door when the lease of 1 ends

    @S-6.5-closed-by-the-server @core @must @timed
    Scenario: A connection that the server closes for a bad line is dropped with that line
      Given 1 holds door
      And 2 waits for door
      And 3 waits for door
      When 2 sends "no op at all"
      Then 2 receives "E ? ? bad-request"
      When 1 releases door
      Then 3 is granted door within 100 ms
      And 2 is closed

    @S-6.5-several @core @must @timed
    Scenario: All that wait on a dropped connection leave their lines
      Given 1 holds door
      And 1 holds window
      And 2 waits for door
      And 2 waits for door
      And 2 waits for window
      And 3 waits for door
      And 3 waits for window
      When 2 drops
      And 1 releases door
      Then 3 is granted door within 100 ms
      When 1 releases window
      Then 3 is granted window within 100 ms

  Rule: 6.6 A grant that nobody was told of is undone when its connection drops

    @S-6.6-held-back @resume @must @timed
    Scenario: A grant whose answer is held back is undone
      The second acquire of 2 takes the first place over. It is granted when 1
      releases, and its answer waits for the first one: so nobody knows of it.
      Given 1 holds door
      And 3 waits for door under the nonce n1
      And 2 waits for door
      And 2 waits for door under the nonce n1
      And 4 waits for door
      When 1 releases door
      And 0.2 s pass
      And 2 drops
      Then 4 is granted door within 100 ms
