Feature: 2 Lines

  What travels is lines, cut at LF. Whatever the lines say, a server has to find
  their ends as SPEC.md says, or it takes half a request for a whole one.

  In all features the number at the beginning of a step is a connection, which
  opens when it is first mentioned, and "door" is a key that nobody else uses.

  Rule: 2.1 Nothing is said at the opening

    @S-2.1-no-greeting @core @must
    Scenario: A server does not speak first
      When 1 says nothing
      Then 1 receives nothing for 1 s

  Rule: 2.2 A line ends with LF and has at most 1,024 bytes

    @S-2.2-cr-before-lf @core @must
    Scenario: One CR before the LF is dropped
      When 1 sends "A door -1 5\r"
      Then 1 is granted door

    @S-2.2-cr-inside @core @must
    Scenario: A CR anywhere else is a control byte
      When 1 sends "A do\ror -1 5"
      Then 1 receives "E A ? bad-key"
      And 1 still works

    @S-2.2-two-crs @core @must
    Scenario: Only one CR is dropped
      When 1 sends "A door -1 5\r\r"
      Then 1 receives "E A door bad-request"
      And 1 still works

    @S-2.2-empty @core @must
    Scenario: Empty lines are ignored
      When 1 sends in one piece:
        """

        \r
        A door -1 5

        """
      Then 1 receives 1 answers and nothing more for 1 s

    @S-2.2-longest @core @must
    Scenario: A line of 1,024 bytes is read to its end
      It can't be a good request, because no request is that long; but it is
      refused as any other, and the connection stays in step.
      When 1 sends a line of 1024 bytes that begins with "R door "
      Then 1 receives "E R door bad-request"
      And 1 still works

    @S-2.2-pieces @core @must
    Scenario: A line may arrive in pieces
      When 1 sends "A door -1 5" byte by byte
      Then 1 is granted door

    @S-2.2-several @core @must
    Scenario: Several lines may arrive at once
      When 1 sends in one piece:
        """
        A door1 -1 5
        A door2 -1 5
        A door3 -1 5
        """
      Then 1 is granted door1
      And 1 is granted door2
      And 1 is granted door3

    @S-2.2-unfinished @core @must
    Scenario: A last line without LF is never executed
      It may be the first half of something else: here, of another token.
      Given 1 holds door
      When 2 sends the bytes "R door {1:door}" without an LF
      And 2 ends its input
      Then 2 is closed
      And door is held

    @S-2.2-cr-counts @core @must
    Scenario: The CR that is dropped counts towards the 1,024 bytes
      When 1 sends a line of 1025 bytes with a CR before its LF
      Then 1 receives "E ? ? bad-request"
      And 1 is closed

  Rule: 2.3 Fields are separated by exactly one SP

    @S-2.3-spaces @core @must
    Scenario Outline: A space too many is refused
      When 1 sends "<line>"
      Then 1 receives "<answer>"
      And 1 still works

      Examples:
        | name           | line          | answer               |
        | before-key     | A  door 0 5   | E A ? bad-key        |
        | between-fields | A door  0 5   | E A door bad-request |
        | at-the-end     | A door 0 5 \\x20 | E A door bad-request |

    @S-2.3-control-bytes @core @must
    Scenario Outline: Control bytes are refused
      When 1 sends "<line>"
      Then 1 receives "<answer>"
      And 1 still works

      Examples:
        | name         | line             | answer               |
        | nul-in-key   | A do\\x00or 0 5  | E A ? bad-key        |
        | tab-in-key   | A do\\x09or 0 5  | E A ? bad-key        |
        | del-in-key   | A do\\x7for 0 5  | E A ? bad-key        |
        | tab-for-sp   | A door\\x090 5   | E A ? bad-key        |
        | in-wait      | A door 0\\x01 5  | E A door bad-request |
        | in-lease     | A door 0 5\\x00  | E A door bad-request |

    @S-2.3-any-bytes @core @must
    Scenario Outline: Bytes above 0x7F are allowed in keys, and echoed as they are
      When 1 sends "A <key> -1 5"
      Then 1 is granted <key>

      Examples:
        | name       | key              |
        | utf-8      | dóór             |
        | not-utf-8  | do\\xff\\xfeor   |
        | half-utf-8 | door\\xc3        |
        | punctuation | #!/d*o{}o"r'?   |

    @S-2.3-not-normalised @core @must
    Scenario: Two spellings of one letter are two keys
      When 1 sends "A \xc3\xa9 -1 5"
      And 1 sends "A e\xcc\x81 -1 5"
      Then 1 is granted \xc3\xa9
      And 1 is granted e\xcc\x81

    @S-2.3-release-spaces @core @must
    Scenario: A space at the end of a release is refused, and nothing is released
      Given 1 holds door
      When 1 sends "R door {1:door}\x20"
      Then 1 receives "E R door bad-request"
      And door is held

  Rule: 2.5 Numbers are decimal, and refused when they are too big

    @S-2.5-good-wait @core @must
    Scenario Outline: A wait that follows the grammar is accepted
      When 1 sends "A door <wait> 5"
      Then 1 is granted door

      Examples:
        | name         | wait          |
        | none         | 0             |
        | do-not-queue | -1            |
        | fraction     | 0.25          |
        | zeros        | 0.000         |
        | longest      | 999999999.999 |

    @S-2.5-bad-wait @core @must
    Scenario Outline: A wait that does not is refused
      When 1 sends "A door <wait> 5"
      Then 1 receives "E A door bad-request"
      And door is free

      Examples:
        | name             | wait       |
        | other-negative   | -2         |
        | negative-part    | -1.0       |
        | leading-zero     | 05         |
        | two-zeros        | 00         |
        | point-at-end     | 5.         |
        | point-at-start   | .5         |
        | fourth-decimal   | 1.2345     |
        | tenth-digit      | 1000000000 |
        | tenth-digit-zero | 0000000001 |
        | plus             | +5         |
        | exponent         | 1e3        |
        | unit             | 5s         |
        | word             | inf        |
        | hexadecimal      | 0x5        |
        | comma            | 0,5        |
        | wraps-32-bits    | 4294967297 |
        | wraps-64-bits    | 18446744073709551617 |

    @S-2.5-bad-lease @core @must
    Scenario Outline: A lease that does not follow the grammar is refused
      When 1 sends "A door 0 <lease>"
      Then 1 receives "E A door bad-request"
      And door is free

      Examples:
        | name             | lease      |
        | negative         | -1         |
        | leading-zero     | 05         |
        | point-at-end     | 5.         |
        | point-at-start   | .5         |
        | fourth-decimal   | 1.2345     |
        | tenth-digit      | 1000000000 |
        | plus             | +5         |
        | exponent         | 1e3        |
        | word             | nan        |
        | wraps-64-bits    | 18446744073709551621 |

    @S-2.5-shortest @core @must
    Scenario Outline: Answers have the shortest form of a duration
      When 1 sends "A door -1 <asked>"
      Then the answer to 1 for door ends with "<answered>"

      Examples:
        | name        | asked | answered |
        | whole       | 5.000 | 5        |
        | one-decimal | 1.500 | 1.5      |
        | two         | 2.250 | 2.25     |
        | millisecond | 3.001 | 3.001    |
        | hundredth   | 0.010 | 0.01     |

    @S-2.5-bad-token @core @must
    Scenario Outline: A token that does not follow the grammar is refused
      When 1 sends "R door <token>"
      Then 1 receives "E R door bad-request"
      And 1 still works

      Examples:
        | name          | token                |
        | zero          | 0                    |
        | leading-zero  | 01                   |
        | negative      | -1                   |
        | plus          | +1                   |
        | fraction      | 1.0                  |
        | word          | token                |
        | two-to-the-64 | 18446744073709551616 |
        | 21-digits     | 100000000000000000000 |

    @S-2.5-good-token @core @must
    Scenario Outline: A token that follows the grammar is looked up
      When 1 sends "R door <token>"
      Then 1 receives "E R door not-held"

      Examples:
        | name        | token                |
        | one         | 1                    |
        | two-to-63   | 9223372036854775808  |
        | the-biggest | 18446744073709551615 |

    @S-2.5-zeros-wait @core @must @timed
    Scenario: A wait of 0.000 has no limit either
      Given 1 holds door
      When 2 sends "A door 0.000 5"
      Then 2 receives nothing for 1 s
      When 1 releases door
      Then 2 is granted door

    @S-2.5-zeros-lease @core @must
    Scenario: A lease of 0.000 asks for the default as well
      It is given back at once.
      When 1 sends "A door -1 0"
      And 2 sends "A window -1 0.000"
      Then 1 is granted door
      And 2 is granted window
      And the lease of 2 for window is that of 1 for door
      When 1 releases door
      And 2 releases window
      Then door is free

    @S-2.5-bad-keep @keep @must
    Scenario Outline: A number in a keep that does not follow the grammar is refused
      Given 1 holds door
      When 1 sends "K door <fields>"
      Then 1 receives "E K door bad-request"
      And 1 still works

      Examples:
        | name           | fields              |
        | leading-zero   | {1:door} 05         |
        | point-at-end   | {1:door} 5.         |
        | fourth-decimal | {1:door} 1.2345     |
        | tenth-digit    | {1:door} 1000000000 |
        | token-zero     | 0 5                 |
        | token-padded   | 0{1:door} 5         |

    @S-2.5-long-wait @core @must @timed
    Scenario Outline: A long wait is not cut, whatever the server counts in
      Given 1 holds door
      When 2 sends "A door <wait> 5"
      Then 2 receives nothing for 1 s
      When 1 releases door
      Then 2 is granted door

      Examples:
        | name         | wait          |
        | over-32-bits | 4294967.796   |
        | longest      | 999999999.999 |

    @S-2.5-short-wait @core @must @timed
    Scenario: A wait of a few milliseconds is not rounded to none
      Given 1 holds door
      When 2 sends "A door 0.004 5"
      Then 2 receives "T door" at once

    @S-2.5-long-lease @limits @must @needs-max-lease
    Scenario: A long lease is not cut by what the server counts in
      When 1 sends "A door -1 4294967.297"
      Then 1 is granted door with a lease of at least 60 s
      When 1 releases door
      Then door is free

  Rule: 2.6 A key is 1 to 255 bytes and not a single ?

    @S-2.6-question-mark @core @must
    Scenario: The single byte ? is no key
      When 1 sends "A ? 0 5"
      Then 1 receives "E A ? bad-key"
      And 1 still works

    @S-2.6-longest @core @must
    Scenario: A key of 255 bytes is granted and released
      When 1 sends "A {key:255} -1 5"
      Then 1 receives "A {key:255} TOKEN 5"

    @S-2.6-too-long @core @must
    Scenario: A key of 256 bytes is refused
      When 1 sends "A {key:256} -1 5"
      Then 1 receives "E A ? bad-key"
      And 1 still works

    @S-2.6-equal-bytes @core @must
    Scenario: Keys are equal when their bytes are
      Given 1 holds door
      Then Door is free
      And door/ is free
      And doo is free
      And door is held

    @S-2.6-not-utf-8 @core @must
    Scenario: Keys that are no UTF-8 are told apart, too
      When 1 sends "A door\xff -1 5"
      And 2 sends "A door\xfe -1 5"
      Then 1 receives "A door\xff TOKEN 5"
      And 2 receives "A door\xfe TOKEN 5"

  Rule: 2.7 The address in a hello is host:port

    @S-2.7-hello @hello @must @without-secret
    Scenario: The address in a hello is in form, and has a port that can be dialled
      When 1 sends "H 1 worker-7"
      Then 1 receives a hello whose address can be dialled

  Rule: 2.8 The text of an error is for people

    @S-2.8-no-control-bytes @core @must
    Scenario Outline: No control byte of a request comes back in a text
      Then the text that 1 receives for "<line>" has no control bytes

      Examples:
        | name   | line                   |
        | escape | A door \\x1b[31m 5     |
        | bell   | R door \\x07           |
        | key    | A do\\x1b[2Jor 0 5     |

    @S-2.8-cut @core @must
    Scenario: A text is cut so that the line keeps to 1,024 bytes
      When 1 sends a line of 1024 bytes that begins with "A door soon "
      Then 1 receives "E A door bad-request"
      And 1 still works
