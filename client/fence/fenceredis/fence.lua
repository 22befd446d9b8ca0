-- KEYS[1]: where the greatest token is kept.
-- KEYS[2...]: what the commands touch, for Redis Cluster.
-- ARGV[1]: the token, in decimal digits without leading zeros.
-- ARGV[2...]: commands, each as the count of its words and then the words.
--
-- Answers {0, the greatest token seen} and does nothing if that is greater;
-- else remembers the token, runs the commands, and answers {1, answers...}.

-- Lua's numbers hold 53 bits of a token. Digits compare well as text: by their
-- count, and then in the order of the alphabet.
local token = ARGV[1]
local seen = redis.call('GET', KEYS[1])
if seen and (#seen > #token or (#seen == #token and seen > token)) then
  return {0, seen}
end
redis.call('SET', KEYS[1], token)
local answer = {1}
local at = 2
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  answer[#answer + 1] = redis.call(unpack(ARGV, at + 1, at + count))
  at = at + 1 + count
end
return answer
