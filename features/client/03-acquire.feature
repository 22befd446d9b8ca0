Feature: 13.6 and 13.7 Acquire

  Rule: 13.6 The caller's limit goes to the server as it is, and runs at the client too

    @C-13.6-fields @core @must
    Scenario Outline: What the caller asks for is what the server reads
      Given 2 servers
      And the client is connected to servers 1 and 2
      When Ann <asks>
      Then one of the servers receives "<line>"

      Examples:
        | name          | asks                                                    | line           |
        | no-limit      | acquires "door" with a lease of 30 s                    | A door 0 30    |
        | limit         | acquires "door" with a wait of 7 s and a lease of 20 s  | A door 7 20    |
        | milliseconds  | acquires "door" with a wait of 1.25 s and a lease of 0.5 s | A door 1.25 0.5 |
        | do-not-queue  | tries "door" with a lease of 30 s                       | A door -1 30   |
        | default-lease | acquires "door" with the default lease                  | A door 0 0     |

    @C-13.6-own-clock @core @must @timed
    Scenario: Without an answer a call ends 200 ms after its limit, as timed out
      Given 2 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a wait of 0.5 s
      Then Ann's acquire ends with timeout, 0.7 s later

    @C-13.6-own-clock-try @core @must @timed
    Scenario: Without an answer a call that does not queue ends 200 ms after its start
      Given 2 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann tries "door"
      Then Ann's acquire ends with timeout, 0.2 s later

    @C-13.6-server-timeout @core @must @timed
    Scenario: T ends the call as timed out
      Given 2 servers
      And each server answers each A with "T KEY"
      And the client is connected to servers 1 and 2
      When Ann tries "door"
      Then Ann's acquire ends with timeout, at once

    @C-13.6-gives-up-at-once @core @must @timed
    Scenario: A caller that gives up does not wait for anybody
      Given 2 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When Ann gives up
      Then Ann's acquire ends with cancelled, at once

    @C-13.6-late-grant @core @must @timed
    Scenario: A grant that comes after the caller gave up is released at once
      The peer speaks core only, so it can't be cancelled.
      Given 2 servers
      And each server speaks core only
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When Ann gives up
      And 0.3 s pass
      And the A of "door" is answered "A door 77 30"
      Then one of the servers receives "R door 77" at once

    @C-13.6-late-grant-after-limit @core @must @timed
    Scenario: A grant that comes after the call's own clock ended it is released at once
      Given 2 servers
      And each server speaks core only
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a wait of 0.3 s
      Then Ann's acquire ends with timeout
      When the A of "door" is answered "A door 77 30"
      Then one of the servers receives "R door 77" at once

    @C-13.6-cancel @resume @must @timed
    Scenario: A call given up is cancelled by its nonce
      Given 2 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30 *"
      When Ann gives up
      Then one of the servers receives "C door *" at once
      And its nonce is that of the A

    @C-13.6-cancel-again @resume @must @timed
    Scenario: A cancel is sent again until it is answered, like a release
      Given 2 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      And the first server to receive a C resets the connection
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30 *"
      When Ann gives up
      Then one of the servers receives "C door *" at once
      And another server receives "C door *" within 0.2 s
      And its nonce is that of the A
      And no server receives "C door *" for 1 s

    @C-13.6-cancel-pace @resume @must @timed
    Scenario: A cancel that can't be delivered is sent again every 200 ms for 5 s
      Given 1 server
      And each server leaves each A unanswered
      And each server resets the connection on each C
      And the client is connected to server 1
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30 *"
      When Ann gives up
      Then copies of "C door *" come every 0.2 s for 5 s, and none after

    @C-13.6-cancel-after-failure @resume @must @timed
    Scenario: A call that failed is cancelled, too
      Each server reads the acquire and goes down. So it may have been granted,
      and nobody holds the lock.
      Given 2 servers
      And each server goes down on each A
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then Ann's acquire ends with no_connection
      And one of the servers receives "A door 0 30 *"
      When 0.5 s pass
      And server 1 is up again
      Then server 1 receives "C door *" within 1 s
      And its nonce is that of the A

    @C-13.6-a-nonce-each @resume @must
    Scenario: Each call has a nonce of its own
      Given 2 servers
      And the client is connected to servers 1 and 2
      When the client acquires 6 different keys, one after the other
      Then each A has a nonce, and no two have the same

    @C-13.6-shorter-limit @core @must @timed
    Scenario: A call with a shorter limit is not held back behind a longer one
      It uses another connection, or ends by its own clock: an answer on the
      first connection would be held back (3.3). The third acquire turns the
      rotation so that the next one in turn is the busy one.
      Given 2 servers
      And the first server to receive an A leaves it unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When the client acquires 1 different key, one after the other
      And Ben acquires "door" with a wait of 0.5 s
      Then another connection receives "A door 0.5 30", or Ben's acquire ends with timeout within 0.7 s

  Rule: 13.7 An acquire moves on, and fails only after all have failed

    @C-13.7-moves-on @core @must @timed
    Scenario: An acquire moves on when its connection is lost
      Given 2 servers
      And the client is connected to servers 1 and 2
      And the first server to receive an A resets the connection
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      And another server receives "A door 0 30" at once
      And Ann has the lock

    @C-13.7-all-before-an-error @core @must
    Scenario: The error comes after every server has read the acquire and dropped it
      Each server goes down as soon as it has read an A.
      Given 3 servers
      And each server goes down on each A
      And the client is connected to servers 1, 2 and 3
      When Ann acquires "door"
      Then Ann's acquire ends with no_connection
      And servers 1, 2 and 3 have received exactly 1 A each

    @C-13.7-wait-over @core @must @timed
    Scenario: A connection that is lost when the wait is over sends nobody on
      What is left is nothing, and a wait of 0 would have no limit.
      Given 2 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a wait of 0.5 s
      Then one of the servers receives "A door 0.5 30"
      When 0.55 s pass
      And that connection is lost
      Then no server receives "A door 0 30" for 0.5 s
      And Ann's acquire ends with timeout

    @C-13.7-anew @core @must @timed
    Scenario: A call that had a place in line begins its tries anew when it loses it
      The first server does not serve, the second lets the call wait. When that
      one is gone, the first may well be the one that took over.
      Given 2 servers
      And each server leaves each A unanswered
      And the first server to receive an A answers "E A KEY no-active"
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      And another server receives "A door 0 30" at once
      When 1.5 s pass
      And that server goes down
      Then another server receives "A door 0 30" at once

    @C-13.7-each-refusal-once @core @must @timed
    Scenario Outline: A server that does not serve is asked once, then the next
      Given 3 servers
      And each server answers each A with "E A KEY <code>"
      And the client is connected to servers 1, 2 and 3
      When Ann acquires "door"
      Then Ann's acquire ends with no_active, within 1 s
      And servers 1, 2 and 3 have received exactly 1 A each

      Examples:
        | name      | code      |
        | no-active | no-active |
        | stopping  | stopping  |

    @C-13.7-one-serves @core @must
    Scenario: The one server that serves is found
      Given 3 servers
      And servers 1 and 2 answer each A with "E A KEY no-active"
      And the client is connected to servers 1, 2 and 3
      When Ann acquires "door"
      Then Ann has the lock
      And server 3 has received exactly 1 A

    @C-13.7-all-refuse @core @must @timed
    Scenario: When all addresses refuse, the error comes at once
      Given 2 servers
      And servers 1 and 2 are down
      And the client is given servers 1 and 2
      When Ann acquires "door"
      Then Ann's acquire ends with no_connection, within 0.5 s

    @C-13.7-lists-addresses @core @should
    Scenario: The error lists every address
      Given 3 servers
      And servers 1, 2 and 3 are down
      And the client is given servers 1, 2 and 3
      When Ann acquires "door"
      Then Ann's acquire ends with no_connection
      And the text of the error has the address of each server

    @C-13.7-down-and-stopping @core @must @timed
    Scenario: A server that answered makes it "no active"
      Given 2 servers
      And server 1 is down
      And server 2 answers each A with "E A KEY stopping"
      And the client is given servers 1 and 2
      When 0.5 s pass
      And Ann acquires "door"
      Then Ann's acquire ends with no_active, within 0.5 s

    @C-13.7-dial-on-demand @core @must @timed
    Scenario: When nothing is live, an address that is down is dialled at once
      Server 1 comes up; before the beat is due, the client needs it.
      Given 2 servers
      And server 1 is down
      And the client is given servers 1 and 2
      When 0.5 s pass
      And server 1 is up again
      And server 2 goes down
      And 0.1 s pass
      And Ann acquires "door"
      Then server 1 receives "A door 0 30" at once
      And Ann has the lock

    @C-13.7-dial-limit @hello @must @timed
    Scenario: A dial on demand takes a second at most, hello included
      Server 1 accepts and says nothing. A dial that is under way is waited
      for, not doubled.
      Given 2 servers
      And server 1 accepts connections and says nothing
      And the client is given servers 1 and 2
      When 0.5 s pass
      And server 2 goes down
      And 0.1 s pass
      And Ann acquires "door"
      Then Ann's acquire ends with no_connection, within 1 s
      And server 1 has at most 1 open connection

    @C-13.7-never-beyond-the-limit @core @must @timed
    Scenario: A call never hangs beyond its caller's limit
      Nobody says a word, not even to a hello.
      Given 2 servers
      And each server accepts connections and says nothing
      And the client is given servers 1 and 2
      When Ann acquires "door" with a wait of 0.4 s
      Then Ann's acquire ends with timeout or no_connection, within 0.6 s

    @C-13.7-wait-left @core @must @timed
    Scenario: What is left of the wait goes to the next server
      Given 2 servers
      And the first server to receive an A leaves it unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a wait of 3 s
      Then one of the servers receives "A door 3 30"
      When 0.8 s pass
      And that connection is lost
      Then another server receives "A door * 30" at once
      And its wait is what is left of 3 s

    @C-13.7-same-nonce @resume @must @timed
    Scenario: An acquire that moves on keeps its nonce
      Given 2 servers
      And the client is connected to servers 1 and 2
      And the first server to receive an A resets the connection
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30 *"
      And another server receives "A door 0 30 *" at once
      And its nonce is that of the A before
      And Ann has the lock

    @C-13.7-spent @resume @must @timed
    Scenario: A nonce that is spent is replaced by a new one
      Given 2 servers
      And the client is connected to servers 1 and 2
      And the first server to receive an A answers "E A KEY spent"
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30 *"
      And one of the servers receives "A door 0 30 *" at once
      And its nonce is not that of the A before
      And Ann has the lock

    @C-13.7-to-the-caller @core @must
    Scenario Outline: A refusal that says something about the call goes to the caller
      Given 2 servers
      And the first server to receive an A answers "E A KEY <code>"
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      And Ann's acquire ends with refused "<code>"
      And no server receives "A door * *" for 0.5 s

      Examples:
        | name         | code         |
        | queue-full   | queue-full   |
        | unauthorized | unauthorized |

    @C-13.7-retry-for @core @should
    Scenario: A client may go on trying for a given time
      Given 2 servers
      And servers 1 and 2 are down
      And the client may retry for 3 s
      And the client is given servers 1 and 2
      When Ann acquires "door"
      And 0.5 s pass
      And server 1 is up again
      Then Ann has the lock

    @C-13.7-retry-from-the-loss @core @should @timed
    Scenario: The given time counts anew from the loss of a place in line
      Given 2 servers
      And each server leaves each A unanswered
      And the client may retry for 2 s
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When 3 s pass
      And servers 1 and 2 go down
      And 0.5 s pass
      And server 1 serves each A
      And server 1 is up again
      Then Ann has the lock

  Rule: 9.9 A nonce is not repeated behind a younger acquire of its key

    @C-9.9-not-behind-a-younger @resume @must
    Scenario: The older of two callers loses its connection
      Ann asked first, Ben later over the other connection. If Ann's nonce went
      there too and she is the holder, the answer would be stuck behind Ben's,
      who waits for her. So her nonce is given up, and she begins anew.
      Given 2 servers
      And each server leaves each A unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30 *"
      When Ben acquires "door"
      Then another server receives "A door 0 30 *"
      When the server of the first A goes down
      Then the same connection receives "C door *"
      And its nonce is that of the first A
      And no A after the second has the nonce of the first

    @C-9.9-oldest-first @resume @must
    Scenario: Two callers that lose one connection move on in the order of their calls
      Given 2 servers
      And server 2 is down
      And each server leaves each A unanswered
      And the client is given servers 1 and 2
      When Ann acquires "door" with a lease of 30 s
      Then server 1 receives "A door 0 30 *"
      When Ben acquires "door" with a lease of 20 s
      Then server 1 receives "A door 0 20 *"
      When 0.5 s pass
      And server 2 is up again
      And server 1 goes down
      Then server 2 receives "A door 0 20 *"
      And it had received "A door 0 30 *" before that
