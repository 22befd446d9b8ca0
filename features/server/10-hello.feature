Feature: 10 Hello, profiles, secret

  Rule: 10.1 A server that lacks a profile does not know its ops

    @S-10.1-no-keep @core @must @without-keep
    Scenario: Without keep, K is unknown
      Given 1 holds door
      When 1 sends "K door {1:door} 5"
      Then 1 receives "E K door unknown-op"
      And 1 still works

    @S-10.1-no-ping @core @must @without-ping
    Scenario: Without ping, P is unknown
      When 1 sends "P word"
      Then 1 receives "E P word unknown-op"
      And 1 still works

    @S-10.1-no-cancel @core @must @without-resume
    Scenario: Without resume, C is unknown
      When 1 sends "C door n1"
      Then 1 receives "E C door unknown-op"
      And 1 still works

  Rule: 10.3 Another version is answered, and the connection stays

    @S-10.3-try-another @hello @must @without-secret
    Scenario: After a version that is not spoken, one that is may be tried
      When 1 sends "H 9 worker-7"
      Then 1 receives "E H 9 version 1"
      When 1 sends "H 1 worker-7"
      Then 1 receives the hello of this server, with the profiles it had before

  Rule: 10.4 A server may ask for a secret

    @S-10.4-unauthorized @secret @must @needs-secret
    Scenario Outline: Without the secret nothing is done
      Given 1 holds door
      And 2 is a connection without a secret
      When 2 sends "<line>"
      Then 2 receives "<answer>"
      And door is held

      Examples:
        | name    | line              | answer                |
        | acquire | A door 0 5        | E A door unauthorized |
        | release | R door {1:door}   | E R door unauthorized |

    @S-10.4-unauthorized-keep @secret @must @needs-secret @needs-keep
    Scenario: Without the secret nothing is kept
      Given 1 holds door
      And 2 is a connection without a secret
      When 2 sends "K door {1:door} 5"
      Then 2 receives "E K door unauthorized"

    @S-10.4-unauthorized-cancel @secret @must @needs-secret @needs-resume
    Scenario: Without the secret nothing is cancelled
      Given 1 holds door under the nonce n1
      And 2 is a connection without a secret
      When 2 sends "C door n1"
      Then 2 receives "E C door unauthorized"
      And door is held

    @S-10.4-form-comes-first @secret @must @needs-secret
    Scenario: A malformed line is refused as such, also without the secret
      Given 1 is a connection without a secret
      When 1 sends "A door"
      Then 1 receives "E A door bad-request"
      When 1 sends "B door"
      Then 1 receives "E B door unknown-op"

    @S-10.4-accepted @secret @must @needs-secret
    Scenario: With the secret the connection is served
      Given 1 is a connection without a secret
      When 1 gives the secret
      Then 1 receives the hello of this server, with the profiles it had before
      And 1 still works

    @S-10.4-none-is-not-wrong @secret @must @needs-secret
    Scenario: No secret is refused, and does not count as a wrong one
      Given 1 is a connection without a secret
      When 1 gives no secret
      Then 1 receives "E H 1 unauthorized"
      When 1 gives no secret
      Then 1 receives "E H 1 unauthorized"
      When 1 gives no secret
      Then 1 receives "E H 1 unauthorized"
      When 1 gives no secret
      Then 1 receives "E H 1 unauthorized"
      When 1 gives the secret
      Then 1 receives the hello of this server, with the profiles it had before

    @S-10.4-third-wrong @secret @must @needs-secret
    Scenario: The third wrong secret is answered, then the connection is closed
      Given 1 is a connection without a secret
      When 1 gives a wrong secret
      Then 1 receives "E H 1 unauthorized"
      When 1 gives a wrong secret
      Then 1 receives "E H 1 unauthorized"
      When 1 gives a wrong secret
      Then 1 receives "E H 1 unauthorized"
      And 1 is closed

    @S-10.4-two-wrong @secret @must @needs-secret
    Scenario: After two wrong secrets the right one is accepted
      Given 1 is a connection without a secret
      When 1 gives a wrong secret
      Then 1 receives "E H 1 unauthorized"
      When 1 gives a wrong secret
      Then 1 receives "E H 1 unauthorized"
      When 1 gives the secret
      Then 1 receives the hello of this server, with the profiles it had before

    @S-10.4-stays-in-force @secret @must @needs-secret
    Scenario: A hello that fails leaves an earlier good one in force
      Given 1 holds door
      When 1 gives a wrong secret
      Then 1 receives "E H 1 unauthorized"
      And 1 still works
      When 1 sends "H 9"
      Then 1 receives "E H 9 version 1"
      And 1 still works

    @S-10.4-each-connection @secret @must @needs-secret
    Scenario: The secret counts for its own connection only
      Given 1 holds door
      And 2 is a connection without a secret
      When 2 sends "A window -1 5"
      Then 2 receives "E A window unauthorized"
