Feature: 13.8 to 13.10 Redirects

  Rule: 13.8 M is followed to any valid address, listed or not

    @C-13.8-listed @core @must
    Scenario: A redirect to a listed address is followed at once
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to servers 1 and 2
      When the client acquires 2 different keys, one after the other
      Then server 2 has granted them all
      And that was not without a redirect

    @C-13.8-unlisted @core @must
    Scenario: An address that was not listed gets one connection, and serves
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to server 1
      When the client acquires 6 different keys, one after the other
      Then server 2 has granted them all
      And server 2 has had at most 1 connection at all times
      And each connection to server 1 has received at most 1 A

    @C-13.8-unlisted-is-dropped @core @must
    Scenario: An unlisted address is dropped 30 s after it ceased to serve
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to server 1
      When the client acquires 2 different keys, one after the other
      Then server 2 has granted them all
      And server 2 has an open connection
      When server 1 serves each A
      And server 2 answers each A with "M A KEY ADDR1"
      And the client acquires 3 different keys, one after the other
      Then server 1 has granted them all
      And that was not without a redirect
      And the connection to server 2 is given up 30 s after its last M

    @C-13.8-try-and-no-limit @core @must @timed
    Scenario Outline: "Do not queue" and "no limit" stay what they are on a redirect
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to server 1
      When Ann <asks>
      Then server 1 receives "<line>"
      And server 2 receives "<line>" at once
      And Ann has the lock

      Examples:
        | name         | asks            | line         |
        | do-not-queue | tries "door"    | A door -1 30 |
        | no-limit     | acquires "door" | A door 0 30  |

  Rule: 13.9 Redirects that are not followed count as no active known

    @C-13.9-refused @core @must @timed
    Scenario Outline: A redirect that leads nowhere is not followed
      It is as good as "no active": the other connection is asked, then the
      call fails. Server 2 would be reached by the unspecified addresses.
      Given 2 servers
      And server 1 answers each A with "M A KEY <address>"
      And the client is connected to server 1
      When Ann acquires "door"
      Then Ann's acquire ends with no_active, within 1 s
      And each connection to server 1 has received at most 1 A
      And server 2 has had at most 0 connections at all times

      Examples:
        | name           | address       |
        | itself         | SELF          |
        | port-zero      | 127.0.0.1:0   |
        | unspecified-v4 | 0.0.0.0:PORT2 |
        | unspecified-v6 | [::]:PORT2    |

    @C-13.9-refused-port @core @must @timed
    Scenario: A redirect to an address that refuses is no active server
      Given 2 servers
      And server 2 is down
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to server 1
      When Ann acquires "door"
      Then Ann's acquire ends with no_active, within 1 s

    @C-13.9-rest @hello @must @timed
    Scenario: An address that failed as a redirect is left alone for 3 s
      Server 2 accepts and says nothing. Two calls are sent there within 3 s.
      Given 2 servers
      And server 2 accepts connections and says nothing
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to server 1
      When Ann acquires "door"
      Then Ann's acquire ends with no_active, within 2 s
      When Ben acquires "gate"
      Then Ben's acquire ends with no_active, at once
      And server 2 has been connected to 1 time

    @C-13.9-rest-after-a-refusal @core @must @timed
    Scenario: An address that refused is followed again after 0.25 s
      Server 2 is being started anew: it refuses, and then it serves.
      Given 2 servers
      And server 2 is down
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to server 1
      When Ann acquires "door"
      Then Ann's acquire ends with no_active, within 1 s
      When server 2 is up again
      And 0.5 s pass
      And Ben acquires "gate"
      Then server 2 receives "A gate 0 30"
      And Ben has the lock

    @C-13.9-only-listed @core @should @timed
    Scenario: A client may follow only the addresses it was given
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client follows only listed addresses
      And the client is connected to server 1
      When Ann acquires "door"
      Then Ann's acquire ends with no_active, within 1 s
      And server 2 has had at most 0 connections at all times

    @C-13.9-secret @secret @must
    Scenario: The secret is sent only to addresses the client was given
      Without TLS a redirect could lead anywhere.
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client has the secret "open-sesame"
      And the client is connected to server 1
      When Ann acquires "door"
      Then server 2 receives "A door 0 30"
      And server 1 has received "open-sesame"
      And server 2 has not received "open-sesame"

  Rule: 13.10 Ten redirects in one call, further ones with growing pauses

    @C-13.10-pauses @core @must @timed
    Scenario: Two servers that redirect to each other
      At once, then after 50 ms, 100 ms, doubling to 1 s; after ten it fails.
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And server 2 answers each A with "M A KEY ADDR1"
      And the client is connected to servers 1 and 2
      When Ann acquires "door"
      Then Ann's acquire ends with no_active, within 7 s
      And the pauses before its redirects were 0, 0.05, 0.1, 0.2, 0.4, 0.8, 1, 1 and 1 s

    @C-13.10-same-nonce @resume @must
    Scenario: A redirected call has the same nonce
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2"
      And the client is connected to server 1
      When Ann acquires "door"
      Then server 1 receives "A door 0 30 *"
      And server 2 receives "A door 0 30 *"
      And its nonce is that of the A before

    @C-13.10-wait-left @core @must @timed
    Scenario: A redirected call sends what is left of its wait
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2" after 0.6 s
      And the client is connected to server 1
      When Ann acquires "door" with a wait of 3 s
      Then server 1 receives "A door 3 30"
      And server 2 receives "A door * 30"
      And its wait is what is left of 3 s

    @C-13.10-wait-over @core @must @timed
    Scenario: A redirect that comes when the wait is over is not followed
      What is left is nothing, and a wait of 0 would have no limit.
      Given 2 servers
      And server 1 answers each A with "M A KEY ADDR2" after 0.6 s
      And the client is connected to server 1
      When Ann acquires "door" with a wait of 0.5 s
      Then Ann's acquire ends with timeout, within 0.7 s
      And server 2 has received exactly 0 A
