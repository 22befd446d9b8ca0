Feature: 10 Hello, profiles, secret

  Rule: 10.2 A client says hello first, and uses only what the answer lists

    @C-10.2-hello-first @hello @must
    Scenario: The first line of each connection is a hello
      Given 2 servers
      And the client is connected to servers 1 and 2
      When the client acquires 4 different keys, one after the other
      Then the first line of each connection is an H of version 1

    @C-10.2-core-only @core @must
    Scenario Outline: With a server that lists nothing, the client speaks core only
      No nonce, no K, no C; pings are allowed (13.3).
      Given 2 servers
      And each server <is such>
      And the client is connected to servers 1 and 2
      When the client acquires and releases 4 different keys, one after the other
      And each server leaves each A unanswered
      And Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When Ann gives up
      And 0.5 s pass
      Then no A has a nonce, and there is no K and no C

      Examples:
        | name       | is such                   |
        | no-hello   | speaks core only          |
        | empty-list | lists the profiles "-"    |

    @C-10.2-no-resume @resume @must
    Scenario: No nonce for a server that does not list resume
      Given 2 servers
      And each server lists the profiles "keep,ping,hello"
      And the client is connected to servers 1 and 2
      When the client acquires and releases 4 different keys, one after the other
      And each server leaves each A unanswered
      And Ann acquires "door"
      Then one of the servers receives "A door 0 30"
      When Ann gives up
      And 0.5 s pass
      Then no A has a nonce, and there is no K and no C

    @C-10.2-no-keep @keep @must
    Scenario: No K for a server that does not list keep
      Given 2 servers
      And each server lists the profiles "ping,hello,resume"
      And the client is connected to servers 1 and 2
      And Ann holds "door"
      When Ann keeps the lock with a lease of 10 s
      Then Ann's keep ends with unsupported
      And no server has received "K * * *"

  Rule: 10.4 A secret is given before anything else

    @C-10.4-first @secret @must
    Scenario: Nothing that asks for a secret is sent before the hello was answered
      The server takes 0.4 s to answer the hello.
      Given 2 servers
      And server 2 is down
      And each server answers each H with "H 1 SELF PROFILES" after 0.4 s
      And the client has the secret "open-sesame"
      And the client is given servers 1 and 2
      When Ann acquires "door"
      Then server 1 receives "H 1 * open-sesame"
      And server 1 receives "A door 0 30", 0.4 s after the H or later
      And Ann has the lock

  Rule: 13.15 What the wire can't carry is refused by the client

    @C-13.15-key @core @must @timed
    Scenario Outline: A key that the wire can't carry is refused before anything is sent
      Given 2 servers
      And the client is connected to servers 1 and 2
      When Ann acquires the key <key>
      Then Ann's acquire ends with bad_argument "no", at once
      And no server has received a line besides H and P

      Examples:
        | name          | key                 |
        | empty         | ""                  |
        | space         | "do or"             |
        | line-feed     | "door 0 30\u000aA gate" |
        | cr            | "door\r"            |
        | delete        | "do\u007for"        |
        | question-mark | "?"                 |
        | too-long      | 256 times "k"       |

    @C-13.15-good-keys @core @must
    Scenario Outline: A key that the wire can carry is sent as it is
      Given 2 servers
      And the client is connected to servers 1 and 2
      When Ann acquires the key <key>
      Then one of the servers receives an A of that key
      And Ann has the lock

      Examples:
        | name        | key           |
        | longest     | 255 times "k" |
        | not-ascii   | "tür/é"       |
        | two-marks   | "??"          |
        | punctuation | "a:b/c#d\"e"  |

    @C-13.15-duration @core @must @timed
    Scenario Outline: A duration that the wire can't carry is refused, not wrapped
      Given 2 servers
      And the client is connected to servers 1 and 2
      When Ann acquires "door" with a <what> of <n> ms
      Then Ann's acquire ends with bad_argument "no", at once
      And no server has received a line besides H and P

      Examples:
        | name           | what  | n             |
        | long-wait      | wait  | 1000000000000 |
        | long-lease     | lease | 1000000000000 |
        | negative-lease | lease | -5000         |

    @C-13.15-secret @secret @must
    Scenario Outline: A secret that the wire can't carry is refused before anything is sent
      Given 2 servers
      And the client has the secret <secret>
      Then the client refuses to be given servers 1 and 2
      And no server has received a line

      Examples:
        | name     | secret          |
        | space    | "open sesame"   |
        | too-long | 256 times "s"   |

  Rule: 3.6 A client stays below 1,024 unanswered requests on a connection

    @C-3.6-stays-below @limits @must
    Scenario: 1,100 callers wait at once
      One connection only. The rest of the calls waits for room, and is sent
      when there is some.
      Given 2 servers
      And server 2 is down
      And each server leaves each A unanswered
      And the client is given servers 1 and 2
      When 1100 callers acquire different keys
      And 1 s passes
      Then each connection is owed less than 1024 answers
      When each A is answered
      Then all of them have their locks

    @C-3.6-stays-below-at-the-start @limits @must
    Scenario: 1,100 callers wait for the first connection
      The hello is answered late, so all of them are there when the connection
      begins to serve.
      Given 2 servers
      And server 2 is down
      And each server leaves each A unanswered
      And all that each server sends takes 0.5 s on its way
      And the client is given servers 1 and 2
      When 1100 callers acquire different keys
      And 2 s pass
      Then each connection is owed less than 1024 answers
      When each A is answered
      Then all of them have their locks
