Feature: 2, 3, 13.13 and 14 Answers
  Which answer belongs to which request, and what a client does about those
  that fit nothing.

  Rule: 3.2 An answer belongs to the oldest unanswered request with the same op and key on its connection

    @C-3.2-other-order @core @must
    Scenario: Answers to different keys come in another order
      One connection only: server 2 is down.
      Given 2 servers
      And server 2 is down
      And each server leaves each A unanswered
      And the client is given servers 1 and 2
      When Ann acquires "door"
      Then server 1 receives "A door 0 30"
      When Ben acquires "gate"
      Then server 1 receives "A gate 0 30"
      When the A of "gate" is answered "A gate 202 30"
      Then Ben has the lock with the token 202
      And Ann's acquire has not ended
      When the A of "door" is answered "A door 201 30"
      Then Ann has the lock with the token 201

    @C-3.2-same-key @core @must
    Scenario: Answers to one key come in the order of the requests
      Given 2 servers
      And server 2 is down
      And each server leaves each A unanswered
      And the client is given servers 1 and 2
      When Ann acquires "door"
      Then server 1 receives "A door 0 30"
      When Ben acquires "door"
      Then server 1 receives "A door 0 30"
      When the A of "door" is answered "A door 201 30"
      Then Ann has the lock with the token 201
      And Ben's acquire has not ended
      When the A of "door" is answered "E A door queue-full"
      Then Ben's acquire ends with refused "queue-full"

    @C-3.2-every-kind @core @must
    Scenario: T, M and E are answers too, to the op and key that they name
      An R and an A of one key are unanswered; the A is answered first, then the
      R, by lines that begin with other letters.
      Given 2 servers
      And server 2 is down
      And each server leaves each R unanswered
      And the client is given servers 1 and 2
      And Ann holds "door"
      And each server leaves each A unanswered
      When Ann releases the lock
      Then server 1 receives "R door 101"
      When Ben acquires "door"
      Then server 1 receives "A door 0 30"
      When the A of "door" is answered "T door"
      Then Ben's acquire ends with timeout
      And Ann's release has not ended
      When the R of "door" is answered "E R door not-held"
      Then Ann's release ends with not_held

  Rule: 13.13 An answer that fits nothing ends the connection, and is never handed out

    @C-13.13-misfit @core @must @timed
    Scenario Outline: A line that fits nothing makes the client reset the connection
      What was pending there moves on.
      Given 2 servers
      And the first server to receive an A leaves it unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When "<line>" is sent on that connection
      Then that connection is given up, at once
      And another server receives "A door 0 30"
      And Ann has the lock with another token than 999

      Examples:
        | name           | line                |
        | another-key    | A gate 999 30       |
        | another-op     | R door 999          |
        | no-answer      | what do you want?   |
        | no-such-op     | B door 999 30       |
        | no-key         | E A ? bad-key       |
        | no-op          | E ? ? bad-request   |
        | limit          | E ? ? limit         |
        | token-zero     | A door 0 30         |
        | malformed      | A door 999 5.       |

    @C-13.13-too-long @core @must @timed
    Scenario: A line of more than 1,024 bytes fits nothing
      Given 2 servers
      And the first server to receive an A leaves it unanswered
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When a line of 1025 bytes is sent on that connection
      Then that connection is given up, at once
      And Ann has the lock

    @C-13.13-duplicate @core @must @timed
    Scenario: A grant that comes twice is not handed out to the next call
      Ann and Ben wait for one key on one connection. Ann's grant comes twice;
      its second copy is not Ben's.
      Given 2 servers
      And server 2 is down
      And each server leaves each A unanswered
      And the client is given servers 1 and 2
      When Ann acquires "door"
      Then server 1 receives "A door 0 30"
      When Ben acquires "door"
      Then server 1 receives "A door 0 30"
      When the A of "door" is answered "A door 201 30"
      And "A door 201 30" is sent on that connection
      Then Ann has the lock with the token 201
      And that connection is given up, at once
      And Ben does not get the token 201

    @C-13.13-duplicate-elsewhere @core @must @timed
    Scenario: Nor is a grant that another call has had over another connection
      Given 2 servers
      And the client is connected to servers 1 and 2
      And Ann holds "door"
      And each server answers each A with "A KEY 101 30"
      When Ben acquires "door" with a wait of 2 s
      Then one of the servers receives "A door 2 30"
      And that connection is given up, at once
      And Ben does not get the token 101

    @C-13.13-duplicate-after @core @must @timed
    Scenario: A grant that comes twice when nobody waits fits nothing
      Given 2 servers
      And the client is connected to servers 1 and 2
      And Ann holds "door"
      When "A door 101 30" is sent on that connection
      Then that connection is given up, at once

  Rule: 14.2 Answers may grow

    @C-14.2-extra-fields @core @must
    Scenario: Extra fields at the end of an answer are ignored
      Given 2 servers
      And each server answers each H with "H 1 SELF PROFILES later 7"
      And each server answers each A with "A KEY NEW LEASE 12 more"
      And each server answers each R with "R KEY TOKEN and more"
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then Ann has the lock with the token 101
      When Ann releases the lock
      Then Ann's release ends well
      And each server has had exactly 1 connection at all times since 1 s after the start

    @C-14.2-unknown-profiles @core @must
    Scenario: Profiles that the client does not know are ignored
      Given 2 servers
      And each server lists the profiles "telepathy,keep,x-9,ping,hello,resume"
      And the client is connected to servers 1 and 2
      When the client acquires and releases 4 different keys, one after the other
      Then their A went round servers 1 and 2 in an exact cycle

  Rule: 5.4 A code that the client does not know is an error that is not sent again

    @C-5.4-unknown-code @core @must
    Scenario: An unknown code goes to the caller
      Given 2 servers
      And each server answers each A with "E A KEY frobnicated by a newer server"
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      And Ann's acquire ends with refused "frobnicated"
      And no server receives "A door * *" for 0.7 s

  Rule: 2.1 Both directions are streams of bytes

    @C-2.1-in-pieces @core @must
    Scenario: An answer arrives byte by byte
      Given 2 servers
      And server 2 is down
      And each server leaves each A unanswered
      And the client is given servers 1 and 2
      When Ann acquires "door"
      Then server 1 receives "A door 0 30"
      When the A of "door" is answered "A door 201 30", byte by byte
      Then Ann has the lock with the token 201

    @C-2.1-together @core @must
    Scenario: Two answers arrive at once
      Given 2 servers
      And server 2 is down
      And each server leaves each A unanswered
      And the client is given servers 1 and 2
      When Ann acquires "door"
      And Ben acquires "gate"
      Then server 1 receives "A door 0 30"
      And server 1 receives "A gate 0 30"
      When "A gate 202 30\nA door 201 30" is sent on that connection
      Then Ann has the lock with the token 201
      And Ben has the lock with the token 202

  Rule: 2.2 A CR before the LF is dropped, an empty line is ignored

    @C-2.2-line-ends @core @must
    Scenario: Lines that end with CR LF, and empty ones between
      Given 2 servers
      And server 2 is down
      And each server leaves each A unanswered
      And the client is given servers 1 and 2
      When Ann acquires "door"
      Then server 1 receives "A door 0 30"
      When "\n\r\nA door 201 30\r" is sent on that connection
      Then Ann has the lock with the token 201
      And that connection is open

  Rule: 8.4 A token is an unsigned number of 64 bits

    @C-8.4-token @core @must
    Scenario Outline: A token is told and given back as it came
      Given 2 servers
      And each server answers each A with "A KEY <token> LEASE"
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then Ann has the lock with the token <token>
      When Ann releases the lock
      Then one of the servers receives "R door <token>"
      And Ann's release ends well

      Examples:
        | name          | token                |
        | one           | 1                    |
        | above-2-to-53 | 9007199254740993     |
        | greatest      | 18446744073709551615 |
