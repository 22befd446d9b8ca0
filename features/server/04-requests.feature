Feature: 4 The six requests

  Rule: 4.1 A is granted, or times out

    @S-4.1-free @core @must
    Scenario: A free key is granted with the lease asked for
      When 1 sends "A door 0 5"
      Then 1 is granted door with a lease of 5 s

    @S-4.1-default-lease @core @must
    Scenario: A lease of 0 asks for the server's default
      It is given back at once.
      When 1 sends "A door -1 0"
      Then 1 is granted door with a lease of at least 0.001 s
      When 1 releases door
      Then door is free

    @S-4.1-wait-0-is-no-limit @core @must @timed
    Scenario: A wait of 0 has no limit
      Given 1 holds door
      When 2 waits for door
      Then 2 receives nothing for 4.5 s
      When 1 releases door
      Then 2 is granted door

    @S-4.1-timeout @core @must @timed
    Scenario: A wait that is over is answered T, never early and little late
      Given 1 holds door
      When 2 sends "A door 0.5 5"
      Then 2 receives "T door" when its wait of 0.5 s is over

    @S-4.1-each-its-own-wait @core @must @timed
    Scenario: A later request may time out before an earlier one
      Given 1 holds door
      And 2 waits for door for at most 1.5 s
      When 3 sends "A door 0.4 5"
      Then 3 receives "T door" when its wait of 0.4 s is over
      And 2 receives "T door" when its wait of 1.5 s is over

    @S-4.1-timeout-leaves-nothing @core @must @timed
    Scenario: After T nothing is left, neither a place in line nor a grant
      Given 1 holds door
      And 2 waits for door for at most 0.3 s
      And 3 waits for door
      Then 2 receives "T door"
      When 1 releases door
      Then 3 is granted door within 100 ms
      And 2 receives nothing for 1 s

    @S-4.1-do-not-queue @core @must @timed
    Scenario: A wait of -1 is answered T at once when the key is held
      Given 1 holds door
      When 2 sends "A door -1 5"
      Then 2 receives "T door" at once

    @S-4.1-do-not-queue-free @core @must @timed
    Scenario: A wait of -1 is granted at once when the key is free
      When 1 sends "A door -1 5"
      Then 1 is granted door at once

    @S-4.1-do-not-queue-leaves-nothing @core @must @timed
    Scenario: A wait of -1 leaves nothing in line
      Given 1 holds door
      When 2 sends "A door -1 5"
      Then 2 receives "T door"
      When 3 waits for door
      And 1 releases door
      Then 3 is granted door within 100 ms
      And 2 receives nothing for 1 s

    @S-4.1-no-nonces @core @must @without-resume
    Scenario: A server without resume refuses a nonce as an extra field
      When 1 sends "A door -1 5 n1"
      Then 1 receives "E A door bad-request"
      And door is free

  Rule: 4.2 R ends the grant with this key and token

    @S-4.2-release @core @must
    Scenario: A released key is free
      Given 1 holds door
      When 1 sends "R door {1:door}"
      Then 1 receives "R door {1:door}"
      And door is free

    @S-4.2-any-connection @core @must
    Scenario: Any connection may release, the token is the proof
      Given 1 holds door
      When 2 sends "R door {1:door}"
      Then 2 receives "R door {1:door}"
      And door is free

    @S-4.2-twice @core @must
    Scenario: What was released can't be released again
      Given 1 holds door
      And 1 releases door
      When 1 sends "R door {1:door}"
      Then 1 receives "E R door not-held"

    @S-4.2-wrong-token @core @must
    Scenario: A wrong token releases nothing
      Given 1 holds door
      When 2 sends "R door 1"
      Then 2 receives "E R door not-held"
      And door is held

    @S-4.2-old-token @core @must
    Scenario: The token of an earlier grant does not release the present one
      Given 1 holds door
      And 1 releases door
      And 2 holds door
      When 1 sends "R door {1:door}"
      Then 1 receives "E R door not-held"
      And door is held

    @S-4.2-token-of-another-key @core @must
    Scenario: The token of another key releases nothing
      Given 1 holds door
      And 1 holds window
      When 1 sends "R door {1:window}"
      Then 1 receives "E R door not-held"
      And door is held
      And window is held

    @S-4.2-other-high-bits @core @must
    Scenario: Tokens are compared whole
      Given 1 holds door
      When 2 sends "R door {1^40:door}"
      Then 2 receives "E R door not-held"
      When 2 sends "R door {1^63:door}"
      Then 2 receives "E R door not-held"
      And door is held

  Rule: 4.3 K gives a living grant a new lease

    @S-4.3-extends @keep @must @timed
    Scenario: A kept lease counts from the keep
      Given 1 holds door with a lease of 1.5 s
      And 2 waits for door
      When 0.7 s pass
      And 1 sends "K door {1:door} 1.5"
      Then 1 is kept door with a lease of 1.5 s
      And 2 is granted door when the lease of 1 ends

    @S-4.3-shortens @keep @must @timed
    Scenario: A keep may shorten the lease
      Given 1 holds door
      And 2 waits for door
      When 1 sends "K door {1:door} 0.5"
      Then 1 is kept door with a lease of 0.5 s
      And 2 is granted door when the lease of 1 ends

    @S-4.3-token-stays @keep @must
    Scenario: A keep does not change the token
      Given 1 holds door
      When 1 sends "K door {1:door} 4"
      Then 1 receives "K door {1:door} 4"
      When 1 sends "R door {1:door}"
      Then 1 receives "R door {1:door}"

    @S-4.3-any-connection @keep @must
    Scenario: Any connection may keep
      Given 1 holds door
      When 2 sends "K door {1:door} 5"
      Then 2 receives "K door {1:door} 5"

    @S-4.3-default @keep @must
    Scenario: A keep with 0 asks for the server's default
      It is given back at once.
      Given 1 holds door
      When 1 sends "K door {1:door} 0"
      Then 1 receives "K door {1:door} LEASE"
      When 1 releases door
      Then door is free

    @S-4.3-wrong-token @keep @must
    Scenario: A keep with a wrong token is refused
      Given 1 holds door
      When 2 sends "K door 1 5"
      Then 2 receives "E K door not-held"

    @S-4.3-no-revival @keep @must
    Scenario: A lease that ended never revives, even if the key is still free
      Given 1 holds door with a lease of 0.5 s
      When 0.8 s pass
      And 1 sends "K door {1:door} 5"
      Then 1 receives "E K door not-held"
      And door is free

    @S-4.3-released @keep @must
    Scenario: What was released can't be kept
      Given 1 holds door
      And 1 releases door
      When 1 sends "K door {1:door} 5"
      Then 1 receives "E K door not-held"
      And door is free

    @S-4.3-maximum @limits @must @needs-max-lease @needs-keep
    Scenario: The maximum holds for a keep, too
      Given 1 holds door
      When 1 sends "K door {1:door} 999999999.999"
      Then 1 is kept door with the longest lease of the server
      When 1 releases door
      Then door is free

    @S-4.3-again @keep @must @timed
    Scenario: It can be kept again and again
      Given 1 holds door with a lease of 1 s
      When 0.6 s pass
      And 1 sends "K door {1:door} 1"
      And 0.6 s pass
      And 1 sends "K door {1:door} 1"
      And 0.6 s pass
      Then door is held

    @S-4.3-handed-on @keep @must @timed
    Scenario: A grant that came after a wait is kept like any other
      Given 1 holds door
      And 2 waits for door with a lease of 1 s
      When 1 releases door
      Then 2 is granted door
      When 2 sends "K door {2:door} 4"
      Then 2 is kept door with a lease of 4 s
      When 1.5 s pass
      Then door is held

    @S-4.3-shorter-then-longer @keep @must @timed
    Scenario: A lease that was shortened can be lengthened
      Given 1 holds door
      When 1 sends "K door {1:door} 0.4"
      Then 1 is kept door with a lease of 0.4 s
      When 1 sends "K door {1:door} 4"
      Then 1 is kept door with a lease of 4 s
      When 1 s pass
      Then door is held

    @S-4.3-zero @keep @must
    Scenario: A keep with 0 asks for the default, and not for the lease before
      Given 1 holds door with a lease of 4 s
      When 2 sends "A window -1 0"
      Then 2 is granted window
      When 1 sends "K door {1:door} 0"
      Then 1 is kept door with the lease of 2 for window
      When 1 releases door
      And 2 releases window
      Then door is free

  Rule: 4.4 C ends the logical acquire of its nonce

    @S-4.4-waiting @resume @must @timed
    Scenario: A cancelled acquire leaves the line, and is answered T
      Given 1 holds door
      And 2 waits for door under the nonce n2
      And 3 waits for door
      When 4 sends "C door n2"
      Then 4 receives "C door n2"
      And 2 receives "T door"
      When 1 releases door
      Then 3 is granted door within 100 ms

    @S-4.4-granted @resume @must @timed
    Scenario: To cancel what was granted is to release it
      Given 1 holds door under the nonce n1
      And 2 waits for door
      When 3 sends "C door n1"
      Then 3 receives "C door n1"
      And 2 is granted door within 100 ms
      When 1 sends "R door {1:door}"
      Then 1 receives "E R door not-held"

    @S-4.4-unknown @resume @must
    Scenario: A cancel that overtook its acquire still works
      When 1 sends "C door n1"
      Then 1 receives "C door n1"
      When 2 sends "A door -1 5 n1"
      Then 2 receives "E A door spent"
      And door is free

    @S-4.4-again @resume @must
    Scenario: A cancel may be sent again
      Given 1 holds door under the nonce n1
      When 2 sends "C door n1"
      Then 2 receives "C door n1"
      When 2 sends "C door n1"
      Then 2 receives "C door n1"
      And door is free

    @S-4.4-only-its-own @resume @must
    Scenario: A cancel touches neither another nonce nor another key
      Given 1 holds door under the nonce n1
      And 1 holds window under the nonce n2
      When 2 sends "C door n2"
      Then 2 receives "C door n2"
      And door is held
      And window is held

    @S-4.4-at-its-turn @resume @must @timed
    Scenario: The T of a cancelled acquire comes at its turn
      Given 1 holds door
      And 2 waits for door
      And 2 waits for door under the nonce n2
      When 3 sends "C door n2"
      Then 3 receives "C door n2"
      And 2 receives nothing for 1 s
      When 1 releases door
      Then 2 receives these lines, one after the other:
        """
        A door TOKEN 5
        T door
        """

    @S-4.4-detached @resume @must @timed
    Scenario: An acquire whose connection dropped can be cancelled
      Given 1 holds door
      And 2 waits for door under the nonce n2
      When 2 drops
      And 3 sends "C door n2"
      Then 3 receives "C door n2"
      When 3 sends "A door -1 5 n2"
      Then 3 receives "E A door spent"

    @S-4.4-handed-on @resume @must
    Scenario: It ends a grant that came after a wait
      Given 1 holds door
      And 2 waits for door under the nonce n2
      When 1 releases door
      Then 2 is granted door
      When 3 sends "C door n2"
      Then 3 receives "C door n2"
      And door is free

  Rule: 4.5 P is answered at once with its word

    @S-4.5-pong @ping @must @timed
    Scenario Outline: A ping is answered with the same bytes
      When 1 sends "P <word>"
      Then 1 receives "P <word>" at once

      Examples:
        | name      | word            |
        | number    | 1               |
        | any-word  | any.word/at_all |
        | not-utf-8 | \\xff\\x80      |
        | long      | {x:255}         |

    @S-4.5-no-word @ping @must
    Scenario: A ping without a word is refused
      When 1 sends "P"
      Then 1 receives "E P ? bad-key"
      And 1 still works

    @S-4.5-bad-word @ping @must
    Scenario Outline: The word of a ping is formed as a key is
      When 1 sends "P <word>"
      Then 1 receives "E P ? bad-key"
      And 1 still works

      Examples:
        | name     | word    |
        | question | ?       |
        | control  | a\\x01b |
        | too-long | {x:256} |

    @S-4.5-while-waiting @ping @must @timed
    Scenario: A ping is answered while an acquire waits
      Given 1 holds door
      And 2 waits for door
      When 2 sends "P still-there"
      Then 2 receives "P still-there" at once

    @S-4.5-without-secret @secret @must @needs-secret @needs-ping
    Scenario: A ping needs no secret
      Given 1 is a connection without a secret
      When 1 sends "P before"
      Then 1 receives "P before"

  Rule: 4.6 H is answered with the node's address and profiles

    @S-4.6-hello @hello @must @without-secret
    Scenario: A hello is answered with the profiles
      When 1 sends "H 1 worker-7"
      Then 1 receives the hello of this server, with the profiles it had before

    @S-4.6-again @hello @must @without-secret
    Scenario: A hello may come at any time and again
      Given 1 holds door
      And 2 waits for door
      When 2 sends "H 1 worker-7"
      Then 2 receives the hello of this server, with the profiles it had before
      When 2 sends "H 1 worker-8"
      Then 2 receives the hello of this server, with the profiles it had before

    @S-4.6-version-first @hello @must
    Scenario Outline: The version is looked at before all other fields
      When 1 sends "H <version>"
      Then 1 receives "<answer> version 1"
      And 1 still works

      Examples:
        | name         | version              | answer |
        | alone        | 9                    | E H 9  |
        | with-a-name  | 2 worker-7           | E H 2  |
        | with-more    | 9 a b c d e f g      | E H 9  |
        | leading-zero | 01 worker-7          | E H 01 |
        | a-word       | one worker-7         | E H one |

    @S-4.6-bad-version @hello @must
    Scenario Outline: A version that is missing or no field is refused as a bad key
      When 1 sends "<line>"
      Then 1 receives "E H ? bad-key"
      And 1 still works

      Examples:
        | name     | line         |
        | missing  | H            |
        | question | H ? worker-7 |

    @S-4.6-no-name @hello @must
    Scenario: A hello without a name is refused
      When 1 sends "H 1"
      Then 1 receives "E H 1 bad-request"
      And 1 still works

    @S-4.6-long-name @hello @must @without-secret
    Scenario: A name of 64 bytes is the longest
      When 1 sends "H 1 {x:64}"
      Then 1 receives the hello of this server, with the profiles it had before
      When 1 sends "H 1 {x:65}"
      Then 1 receives "E H 1 bad-request"

    @S-4.6-secret-not-asked-for @hello @must @without-secret
    Scenario: A secret where none is asked for is ignored
      When 1 sends "H 1 worker-7 open-sesame"
      Then 1 receives the hello of this server, with the profiles it had before

    @S-4.6-no-hello @core @must @without-hello
    Scenario: A server without hello does not know the op
      When 1 sends "H 1 worker-7"
      Then 1 receives "E H 1 unknown-op"
      And 1 still works
