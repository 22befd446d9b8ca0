Feature: 9 Nonces

  A nonce names one logical acquire, so that a client whose connection died can
  ask again and meets its own request.

  Rule: 9.1 A nonce names one acquire of one key

    @S-9.1-another-key @resume @must
    Scenario: The same nonce with another key is another acquire
      Given 1 holds door under the nonce n1
      When 1 sends "A window -1 5 n1"
      Then 1 is granted window
      And the token of 1 for window is greater than that of 1 for door

    @S-9.1-whole @resume @must
    Scenario Outline: Nonces are compared whole, byte by byte
      Given 1 holds door under the nonce <first>
      When 2 sends "A door -1 5 <second>"
      Then 2 receives "T door"

      Examples:
        | name      | first                            | second                           |
        | last-byte | abcdefghijklmnopqrstuvwxyz012345 | abcdefghijklmnopqrstuvwxyz012346 |
        | case      | nonceA                           | noncea                           |

  Rule: 9.2 Where a nonce has ended, it is spent

    @S-9.2-released @resume @must
    Scenario: Spent by a release
      Given 1 holds door under the nonce n1
      And 1 releases door
      When 1 sends "A door 0 5 n1"
      Then 1 receives "E A door spent"
      And door is free

    @S-9.2-lease-ended @resume @must
    Scenario: Spent by the end of its lease
      Given 1 holds door with a lease of 0.5 s under the nonce n1
      When 0.8 s pass
      And 1 sends "A door 0 5 n1"
      Then 1 receives "E A door spent"

    @S-9.2-timed-out @resume @must
    Scenario: Spent by its limit
      Given 1 holds door
      And 2 waits for door for at most 0.3 s under the nonce n1
      Then 2 receives "T door"
      When 2 sends "A door 0 5 n1"
      Then 2 receives "E A door spent"

    @S-9.2-not-queued @resume @must
    Scenario: Spent by a wait of -1 while the key is held
      Given 1 holds door
      When 2 sends "A door -1 5 n1"
      Then 2 receives "T door"
      When 2 sends "A door -1 5 n1"
      Then 2 receives "E A door spent"

    @S-9.2-bad-request @resume @must
    Scenario: Not spent by a request that is refused
      When 1 sends "A door soon 5 n1"
      Then 1 receives "E A door bad-request"
      When 1 sends "A door -1 5 n1"
      Then 1 is granted door

    @S-9.2-kept @resume @must @needs-keep
    Scenario: A keep leaves it granted
      Given 1 holds door under the nonce n1
      When 1 sends "K door {1:door} 4"
      Then 1 is kept door with a lease of 4 s
      When 2 sends "A door 0 5 n1"
      Then 2 is told of the grant of door to 1 again, with what is left of its lease

    @S-9.2-cancelled @resume @must
    Scenario Outline: Spent by a cancel
      Given 1 holds door
      And 2 <gets> under the nonce n2
      When 3 sends "C <key> n2"
      Then 3 receives "C <key> n2"
      When 3 sends "A <key> -1 5 n2"
      Then 3 receives "E A <key> spent"

      Examples:
        | name    | gets           | key    |
        | in-line | waits for door | door   |
        | granted | holds window   | window |

    @S-9.2-handed-on @resume @must
    Scenario: Granted when the key is handed on
      Given 1 holds door
      And 2 waits for door under the nonce n2
      When 1 releases door
      Then 2 is granted door
      When 3 sends "A door 0 5 n2"
      Then 3 is told of the grant of door to 2 again, with what is left of its lease

    @S-9.2-unauthorized @secret @must @needs-secret @needs-resume
    Scenario: Not spent by an acquire without the secret
      Given 1 is a connection without a secret
      When 1 sends "A door -1 5 n1"
      Then 1 receives "E A door unauthorized"
      When 2 sends "A door -1 5 n1"
      Then 2 is granted door

    @S-9.2-queue-full @limits @must @needs-waiters-per-key @needs-resume
    Scenario: Not spent by an acquire that finds the line full
      Given 1 holds door
      And as many wait for door as the server allows
      When 2 sends "A door 0 5 n1"
      Then 2 receives "E A door queue-full"
      When 2 sends "A door 0 5 n1"
      Then 2 receives "E A door queue-full"

  Rule: 9.4 An acquire whose nonce is in line takes its place over

    @S-9.4-superseded @resume @must @timed
    Scenario: The newer request has the place, the older one is superseded
      Given 1 holds door
      And 2 waits for door under the nonce n1
      And 3 waits for door
      When 4 waits for door with a lease of 4 s under the nonce n1
      Then 2 receives "E A door superseded"
      When 1 releases door
      Then 4 is granted door with a lease of 4 s
      And 3 has received nothing
      When 4 releases door
      Then 3 is granted door within 100 ms

    @S-9.4-new-limit @resume @must @timed
    Scenario: The newer request's wait counts, from its own arrival
      Given 1 holds door
      And 2 waits for door under the nonce n1
      When 3 sends "A door 0.5 5 n1"
      Then 2 receives "E A door superseded"
      And 3 receives "T door" when its wait of 0.5 s is over

    @S-9.4-same-connection @resume @must
    Scenario: The place may be taken over on the same connection
      Given 1 holds door
      And 2 waits for door under the nonce n1
      When 2 sends "A door 0 4 n1"
      Then 2 receives "E A door superseded"
      When 1 releases door
      Then 2 is granted door with a lease of 4 s

    @S-9.4-gives-up @resume @must @timed
    Scenario: With a wait of -1 the place is given up
      Given 1 holds door
      And 2 waits for door under the nonce n1
      And 3 waits for door
      When 4 sends "A door -1 5 n1"
      Then 2 receives "E A door superseded"
      And 4 receives "T door"
      When 4 sends "A door 0 5 n1"
      Then 4 receives "E A door spent"
      When 1 releases door
      Then 3 is granted door within 100 ms

    @S-9.4-longer-limit @resume @must @timed
    Scenario: The limit is that of the newer request, also where it is later
      Given 1 holds door
      And 2 waits for door for at most 0.5 s under the nonce n1
      And 3 waits for door under the nonce n1
      Then 3 receives nothing for 1 s
      When 1 releases door
      Then 3 is granted door

    @S-9.4-old-connection @resume @must @timed
    Scenario: The connection whose request was taken over may go
      Given 1 holds door
      And 2 waits for door under the nonce n1
      And 3 waits for door under the nonce n1
      When 2 drops
      And 1 releases door
      Then 3 is granted door within 100 ms

  Rule: 9.5 Asking again for what was granted gives the same grant

    @S-9.5-same-token @resume @must
    Scenario: The same token, and what is left of the lease
      Given 1 holds door under the nonce n1
      When 0.5 s pass
      And 2 sends "A door 0 5 n1"
      Then 2 is told of the grant of door to 1 again, with what is left of its lease

    @S-9.5-not-renewed @resume @must @timed
    Scenario: Asking again does not renew the lease
      Given 1 holds door with a lease of 1.5 s under the nonce n1
      And 2 waits for door
      When 0.7 s pass
      And 3 sends "A door 0 5 n1"
      Then 3 is told of the grant of door to 1 again, with what is left of its lease
      And 2 is granted door when the lease of 1 ends

    @S-9.5-after-a-drop @resume @must
    Scenario: A client that lost its connection meets its grant
      Given 1 holds door under the nonce n1
      When 1 drops
      And 2 sends "A door 4 5 n1"
      Then 2 is told of the grant of door to 1 again, with what is left of its lease
      When 2 releases door
      Then door is free

    @S-9.5-without-a-wait @resume @must
    Scenario: A wait of -1 is told of it as well
      Given 1 holds door under the nonce n1
      When 2 sends "A door -1 5 n1"
      Then 2 is told of the grant of door to 1 again, with what is left of its lease

  Rule: 9.6 A waiter whose connection dropped keeps its place for 1 s, and holds nobody up

    @S-9.6-comes-back @resume @must @timed
    Scenario: Who comes back in time has its place
      Given 1 holds door
      And 2 waits for door under the nonce n1
      And 3 waits for door
      When 2 drops
      And 0.3 s pass
      And 4 waits for door with a lease of 4 s under the nonce n1
      And 1 releases door
      Then 4 is granted door with a lease of 4 s
      And 3 has received nothing
      When 4 releases door
      Then 3 is granted door within 100 ms

    @S-9.6-is-skipped @resume @must @timed
    Scenario: If the key falls free meanwhile, the next one gets it, and the place stays
      Given 1 holds door
      And 2 waits for door under the nonce n1
      And 3 waits for door
      When 2 drops
      And 1 releases door
      Then 3 is granted door within 100 ms
      When 1 waits for door
      And 4 waits for door under the nonce n1
      And 3 releases door
      Then 4 is granted door within 100 ms
      When 4 releases door
      Then 1 is granted door within 100 ms

    @S-9.6-newcomer @resume @must @timed
    Scenario: A key that is free but for a detached waiter goes to a newcomer
      Given 1 holds door
      And 2 waits for door under the nonce n1
      When 2 drops
      And 1 releases door
      And 3 sends "A door -1 5"
      Then 3 is granted door

    @S-9.6-back-to-a-free-key @resume @must @timed
    Scenario: Who comes back to a free key gets it at once
      Given 1 holds door
      And 2 waits for door under the nonce n1
      When 2 drops
      And 1 releases door
      And 3 sends "A door 4 5 n1"
      Then 3 is granted door at once

    @S-9.6-too-late @resume @must @timed
    Scenario: After the grace it stands at the end of the line
      Given 1 holds door
      And 2 waits for door under the nonce n1
      And 3 waits for door
      When 2 drops
      And 1.3 s pass
      And 4 waits for door under the nonce n1
      And 1 releases door
      Then 3 is granted door within 100 ms
      When 3 releases door
      Then 4 is granted door within 100 ms

    @S-9.6-two-come-back @resume @must @timed
    Scenario: Of two who come back, the one who asked first is first
      Given 1 holds door
      And 2 waits for door under the nonce n2
      And 3 waits for door under the nonce n3
      When 2 drops
      And 3 drops
      And 4 waits for door under the nonce n3
      And 5 waits for door under the nonce n2
      And 1 releases door
      Then 5 is granted door
      And 4 has received nothing
      When 5 releases door
      Then 4 is granted door

    @S-9.6-own-limit @resume @must @timed
    Scenario: A limit that passes while nobody is attached spends the nonce
      Given 1 holds door
      And 2 waits for door for at most 0.5 s under the nonce n1
      When 2 drops
      And 0.5 s pass
      And 3 sends "A door 0 5 n1"
      Then 3 receives "E A door spent"

    @S-9.6-grace-ends @resume @must @timed
    Scenario: Who came back in time stays
      Given 1 holds door
      And 2 waits for door under the nonce n1
      When 2 drops
      And 0.3 s pass
      And 3 waits for door under the nonce n1
      And 1.2 s pass
      And 1 releases door
      Then 3 is granted door within 100 ms

    @S-9.6-do-not-queue @resume @must
    Scenario: Who comes back to a free key without a wait is granted it
      Given 1 holds door
      And 2 waits for door under the nonce n1
      When 2 drops
      And 1 releases door
      And 3 sends "A door -1 5 n1"
      Then 3 is granted door

  Rule: 9.7 A spent nonce is remembered for at least 10 s

    @S-9.7-ten-seconds @resume @must
    Scenario: After nearly 10 s it is still spent
      Given 1 holds door under the nonce n1
      And 1 releases door
      When 9.5 s pass
      And 1 sends "A door 0 5 n1"
      Then 1 receives "E A door spent"

    @S-9.7-cancelled @resume @must
    Scenario: Also one that a cancel has spent
      When 1 sends "C door n1"
      Then 1 receives "C door n1"
      When 8 s pass
      And 1 sends "A door -1 5 n1"
      Then 1 receives "E A door spent"

    @S-9.7-many @resume @must
    Scenario: Many others do not push it out
      When 1 sends "C door n1"
      Then 1 receives "C door n1"
      When 1 cancels 5000 other nonces
      And 1 sends "A door -1 5 n1"
      Then 1 receives "E A door spent"

