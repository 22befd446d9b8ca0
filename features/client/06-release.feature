Feature: 13.12 Release

  Rule: 13.12 An undelivered release is written every 200 ms, for 5 s

    @C-13.12-pace @core @must @timed
    Scenario: A release that can't be delivered is sent again every 200 ms for 5 s
      The server reads each R, resets the connection, and accepts again. The
      last copy comes 5 s after the call at the latest; then the caller is told
      that it may have happened.
      Given 1 server
      And each server resets the connection on each R
      And the client is connected to server 1
      And Ann holds "door"
      When Ann releases the lock
      Then copies of "R door 101" come every 0.2 s for 5 s, and none after
      And Ann's release ends with undelivered "maybe"

    @C-13.12-elsewhere @core @must @timed
    Scenario: When its server goes down, a release goes to the next one
      Given 2 servers
      And the client is connected to servers 1 and 2
      And the first server to receive an R goes down
      And Ann holds "door"
      When Ann releases the lock
      Then one of the servers receives "R door 101" at once
      And another server receives "R door 101" within 0.2 s
      And Ann's release ends well
      And no server receives "R door *" for 1 s

    @C-13.12-owed @core @must @timed
    Scenario: A release that a live connection owes an answer to is not sent again there
      Given 2 servers
      And server 2 is down
      And the client is given servers 1 and 2
      And each server leaves each R unanswered
      And Ann holds "door"
      When Ann releases the lock
      Then server 1 receives "R door 101" at once
      And no server receives "R door *" for 1.5 s
      When the R of "door" is answered "R door 101"
      Then Ann's release ends well

    @C-13.12-the-caller-goes @core @must @timed
    Scenario: A caller that gives up ends the call, not the sending
      Given 1 server
      And each server resets the connection on each R
      And the client is connected to server 1
      And Ann holds "door"
      When Ann releases the lock
      Then one of the servers receives "R door 101" at once
      When Ann gives up the release
      Then Ann's release ends with cancelled, at once
      And one of the servers receives "R door 101" within 0.2 s
      And one of the servers receives "R door 101" within 0.2 s

    @C-13.12-not-held @core @must
    Scenario: not-held to the only copy is the error "not held"
      Given 2 servers
      And each server answers each R with "E R KEY not-held"
      And the client is connected to servers 1 and 2
      And Ann holds "door"
      When Ann releases the lock
      Then Ann's release ends with not_held

    @C-13.12-not-held-to-a-copy @core @must @timed
    Scenario: not-held to a second copy is good news while the lease has time left
      The first copy did it, but its answer was lost.
      Given 2 servers
      And each server answers each R with "E R KEY not-held"
      And the first server to receive an R resets the connection
      And the client is connected to servers 1 and 2
      And Ann holds "door"
      When Ann releases the lock
      Then one of the servers receives "R door 101" at once
      And another server receives "R door 101"
      And Ann's release ends well

    @C-13.12-not-held-after-the-lease @core @must @timed
    Scenario: not-held to a second copy is the error "not held" when the lease is over
      Given 2 servers
      And each server answers each R with "E R KEY not-held" after 1 s
      And the first server to receive an R resets the connection
      And the client is connected to servers 1 and 2
      And Ann holds "door" with a lease of 0.9 s
      When Ann releases the lock
      Then one of the servers receives "R door 101" at once
      And another server receives "R door 101"
      And Ann's release ends with not_held

    @C-13.12-moved @core @must @timed
    Scenario: A release is redirected
      Server 1 granted, then handed over to server 2.
      Given 2 servers
      And server 1 answers each R with "M R KEY ADDR2"
      And the client is connected to server 1
      And Ann holds "door"
      When Ann releases the lock
      Then server 1 receives "R door 101" at once
      And server 2 receives "R door 101" within 0.2 s
      And Ann's release ends well

    @C-13.12-undelivered-still @core @must @timed
    Scenario Outline: A release that nobody serves is undelivered still
      Given 2 servers
      And the first server to receive an R answers "E R KEY <code>"
      And the client is connected to servers 1 and 2
      And Ann holds "door"
      When Ann releases the lock
      Then one of the servers receives "R door 101" at once
      And one of the servers receives "R door 101" within 0.2 s
      And Ann's release ends well

      Examples:
        | name      | code      |
        | no-active | no-active |
        | stopping  | stopping  |

    @C-13.12-other-code @core @must
    Scenario: Any other code ends the release with that code
      Given 2 servers
      And each server answers each R with "E R KEY frobnicated"
      And the client is connected to servers 1 and 2
      And Ann holds "door"
      When Ann releases the lock
      Then Ann's release ends with refused "frobnicated"
      And one of the servers receives "R door 101"
      And no server receives "R door *" for 0.7 s

    @C-13.12-each-its-own-answer @core @must @timed
    Scenario: Two releases of one key on one connection each get their own answer
      Ann's release is not answered yet when Ben asks for the key, gets it,
      and releases it too. The first answer is Ann's, the second Ben's. Ben's
      acquire does not wait for Ann's release.
      Given 2 servers
      And server 2 is down
      And the client is given servers 1 and 2
      And each server leaves each R unanswered
      And Ann holds "door"
      When Ann releases the lock
      Then server 1 receives "R door 101" at once
      When Ben acquires "door"
      Then server 1 receives "A door 0 30" at once
      And Ben has the lock
      When Ben releases the lock
      Then server 1 receives "R door 102" at once
      When the R of "door" is answered "R door 101"
      Then Ann's release ends well
      And Ben's release has not ended
      When the R of "door" is answered "E R door not-held"
      Then Ben's release ends with not_held

  Rule: 13.14 Errors tell what happened, what did not, and what may have

    @C-13.14-acquire @core @must
    Scenario Outline: What became of an acquire
      Given 2 servers
      And each server answers each A with "<answer>"
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then Ann's acquire ends with <error> "<outcome>"

      Examples:
        | name         | answer                | error                 | outcome |
        | timed-out    | T KEY                 | timeout               | no      |
        | queue-full   | E A KEY queue-full    | refused "queue-full"  | no      |
        | no-active    | E A KEY no-active     | no_active             | no      |
        | unknown-code | E A KEY frobnicated   | refused "frobnicated" | maybe   |
        | superseded   | E A KEY superseded    | refused "superseded"  | maybe   |

    @C-13.14-lost @core @must
    Scenario: A request whose answer was lost may have had an effect
      Given 2 servers
      And each server speaks core only
      And each server goes down on each A
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then Ann's acquire ends with no_connection "maybe"

    @C-13.14-not-held @core @must
    Scenario: A release that was refused did not happen
      Given 2 servers
      And each server answers each R with "E R KEY not-held"
      And the client is connected to servers 1 and 2
      And Ann holds "door"
      When Ann releases the lock
      Then Ann's release ends with not_held "no"
