Feature: 8 Tokens

  The protected resource refuses a token lower than the greatest it has seen. So
  a token that is given twice, or falls, is a lock that protects nothing.

  Rule: 8.1 Tokens rise, and none is given twice

    @S-8.1-next-grant @core @must
    Scenario: The next grant of a key has a greater token
      Given 1 holds door
      And 1 releases door
      And 2 holds door
      Then the token of 2 for door is greater than that of 1 for door

    @S-8.1-hand-over @core @must
    Scenario: A key that is handed over has a greater token
      Given 1 holds door
      And 2 waits for door
      When 1 releases door
      Then 2 is granted door
      And the token of 2 for door is greater than that of 1 for door

    @S-8.1-after-a-lease @core @must
    Scenario: A key that goes on after the end of a lease has a greater token
      Given 1 holds door with a lease of 0.5 s
      And 2 waits for door
      Then 2 is granted door
      And the token of 2 for door is greater than that of 1 for door

    @S-8.1-other-key @core @must
    Scenario: The next grant of another key has a greater token, too
      Given 1 holds door
      And 2 holds window
      And 3 holds roof
      Then the token of 2 for window is greater than that of 1 for door
      And the token of 3 for roof is greater than that of 2 for window

    @S-8.1-many @core @must
    Scenario: Tokens rise over many grants
      Then 300 grants, on 5 connections and 7 keys, have rising tokens

    @S-8.1-new-grant-after-asking-again @resume @must
    Scenario: A new acquire has a greater token, also where the nonce before was asked for again
      Given 1 holds door under the nonce n1
      When 2 sends "A door 0 5 n1"
      Then 2 is told of the grant of door to 1 again, with what is left of its lease
      When 1 releases door
      And 2 sends "A door 0 5 n2"
      Then 2 is granted door
      And the token of 2 for door is greater than that of 1 for door

  Rule: 8.4 Tokens should fit a signed 64-bit column

    @S-8.4-below-2-63 @core @should
    Scenario: A token is below 2^63
      Given 1 holds door
      Then the token of 1 for door is below 2^63
