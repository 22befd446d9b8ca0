Feature: 5 Refusals and errors

  The first thing wrong on a line, from left to right, decides how it is
  refused; and a refused line has done nothing.

  Rule: 5.1 The first thing wrong decides

    @S-5.1-too-long @core @must @timed
    Scenario: 1,024 bytes without an LF are refused as soon as they have arrived
      When 1 sends 1024 bytes without an LF
      Then 1 receives "E ? ? bad-request" at once
      And 1 is closed

    @S-5.1-not-yet @core @must
    Scenario: 1,023 bytes without an LF may still become a line
      When 1 sends 1023 bytes without an LF
      Then 1 receives nothing for 0.5 s

    @S-5.1-order @core @must
    Scenario Outline: The key comes before the op, and the op before the fields
      When 1 sends "<line>"
      Then 1 receives "<answer>"
      And 1 still works

      Examples:
        | name              | line          | answer             |
        | unknown-op-no-key | B             | E B ? bad-key      |
        | unknown-op-bad-key | B ? x        | E B ? bad-key      |
        | unknown-op-fields | B door x y z  | E B door unknown-op |
        | bad-key-and-wait  | A ? soon 5    | E A ? bad-key      |

  Rule: 5.2 Each kind of bad line has its answer

    @S-5.2-strangers @core @must
    Scenario Outline: A line without an op is refused, and the connection closed
      When 1 sends "<line>"
      Then 1 receives "E ? ? bad-request"
      And 1 is closed

      Examples:
        | name       | line                   |
        | http       | GET / HTTP/1.1         |
        | lower-case | a door 0 5             |
        | space      | \\x20A door 0 5        |
        | two-letters | AA door 0 5           |
        | digit      | 1 door 0 5             |
        | not-ascii  | Ä door 0 5             |
        | tab-for-sp | A\\x09door 0 5         |
        | tls        | \\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01 |

    @S-5.2-bad-key @core @must
    Scenario Outline: A line without a good key is refused
      When 1 sends "<line>"
      Then 1 receives "<answer>"
      And 1 still works

      Examples:
        | name         | line         | answer        |
        | no-key       | A            | E A ? bad-key |
        | no-key-r     | R            | E R ? bad-key |
        | only-a-space | A\\x20       | E A ? bad-key |
        | question     | R ? 7        | E R ? bad-key |

    @S-5.2-unknown-op @core @must
    Scenario Outline: An op that is not spoken here is refused
      When 1 sends "<line>"
      Then 1 receives "<answer>"
      And 1 still works

      Examples:
        | name         | line   | answer              |
        | unknown      | B door | E B door unknown-op |
        | answer-only-t | T door | E T door unknown-op |
        | answer-only-m | M door | E M door unknown-op |
        | answer-only-e | E door | E E door unknown-op |

    @S-5.2-fields @core @must
    Scenario Outline: A field that is missing, malformed or extra is refused
      When 1 sends "<line>"
      Then 1 receives "<answer>"
      And 1 still works

      Examples:
        | name             | line               | answer               |
        | no-wait          | A door             | E A door bad-request |
        | no-lease         | A door 0           | E A door bad-request |
        | bad-nonce        | A door 0 5 n@nce   | E A door bad-request |
        | after-the-nonce  | A door 0 5 n1 more | E A door bad-request |
        | no-token         | R door             | E R door bad-request |
        | after-the-token  | R door 7 more      | E R door bad-request |

    @S-5.2-fields-keep @keep @must
    Scenario Outline: A keep with a field missing, malformed or extra is refused
      When 1 sends "<line>"
      Then 1 receives "E K door bad-request"
      And 1 still works

      Examples:
        | name     | line            |
        | no-token | K door          |
        | no-lease | K door 7        |
        | extra    | K door 7 5 more |
        | bad      | K door 7 -1     |

    @S-5.2-fields-resume @resume @must
    Scenario Outline: A cancel or a nonce that is malformed is refused
      When 1 sends "<line>"
      Then 1 receives "<answer>"
      And 1 still works

      Examples:
        | name         | line                | answer               |
        | no-nonce     | C door              | E C door bad-request |
        | extra        | C door n1 more      | E C door bad-request |
        | bad-nonce    | C door n.1          | E C door bad-request |
        | long-nonce   | C door {x:33}       | E C door bad-request |
        | long-nonce-a | A door 0 5 {x:33}   | E A door bad-request |

    @S-5.2-longest-nonce @resume @must
    Scenario: A nonce of 32 bytes of all kinds is accepted
      When 1 sends "A door -1 5 abcXYZ_-0123456789{x:14}"
      Then 1 is granted door

    @S-5.2-fields-ping @ping @must
    Scenario: A ping with an extra field is refused
      When 1 sends "P a b"
      Then 1 receives "E P a bad-request"
      And 1 still works

  Rule: 5.4 A refused request had no effect

    @S-5.4-refused-release @core @must
    Scenario: A release with an extra field releases nothing
      Given 1 holds door
      When 1 sends "R door {1:door} 5"
      Then 1 receives "E R door bad-request"
      And door is held

    @S-5.4-refused-acquire @core @must
    Scenario: A refused acquire does not stand in line
      Given 1 holds door
      When 2 sends "A door 0 5s"
      Then 2 receives "E A door bad-request"
      When 1 releases door
      Then door is free

    @S-5.4-refused-keep @keep @must @timed
    Scenario: A refused keep changes no lease
      Given 1 holds door with a lease of 1 s
      And 2 waits for door
      When 1 sends "K door {1:door} 5s"
      Then 1 receives "E K door bad-request"
      And 2 is granted door when the lease of 1 ends
