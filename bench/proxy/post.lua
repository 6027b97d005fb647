-- wrk: a chat request with a long history if KB is set; the person's words differ from request to request, as they do in life.
-- Each begins a conversation, or with TURN=next goes on with the one its agent has, so that there is something to compare it with.
local kb = tonumber(os.getenv("KB") or "0")
local head = '{"model":"gpt-4o-mini","messages":[{"role":"system","content":"You are a helpful assistant that answers briefly."},'
local history = ""
local goes_on = os.getenv("TURN") == "next"
if goes_on then
  history = '{"role":"user","content":"Let us go through my notes, one by one."},{"role":"assistant","content":"Gladly."},'
end
if kb > 0 then
  local line = "src/engine/request.rs:42: the value is taken from the window and compared, see also \\\"notes\\\".\\n"
  local result = string.rep(line, 40)
  local turn = '{"role":"user","content":"Look at the next file."},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\\"path\\": \\"src/engine/request.rs\\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"' .. result .. '"},{"role":"assistant","content":"It compares the window."},'
  history = history .. string.rep(turn, math.ceil(kb * 1024 / #turn))
end
local words = {"foxes", "dogs", "rivers", "engines", "windows", "numbers", "letters", "gardens", "planets", "stories", "bridges"}
local n = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer sk-bench-1234"
local bodies = {}
local function body(said)
  bodies[#bodies + 1] = head .. history .. '{"role":"user","content":"' .. said .. '"}],"max_tokens":64}'
end
-- Sentences that differ by two words are alike: in one conversation they would be a loop, rightly.
local dice = 42
local function word()
  dice = (dice * 1103515245 + 12345) % 2147483648
  local syllables = {"ka", "lo", "mi", "ne", "pu", "ra", "so", "ti"}
  local number = math.floor(dice / 65536)
  return syllables[number % 8 + 1] .. syllables[math.floor(number / 8) % 8 + 1] .. syllables[math.floor(number / 64) % 8 + 1]
end
if goes_on then
  for _ = 1, 1000 do
    local said = {}
    for i = 1, 12 do said[i] = word() end
    body(table.concat(said, " "))
  end
else
  for _, a in ipairs(words) do
    for _, b in ipairs(words) do
      body("Say something about " .. a .. " and " .. b .. " in one sentence, please.")
      if kb > 0 then break end
    end
  end
end
local agents = tonumber(os.getenv("AGENTS") or "64")
local prefix = os.getenv("PREFIX") or ""
function request()
  n = n + 1
  local path = prefix == "" and "/v1/chat/completions" or prefix:gsub("AGENT", "agent-" .. (n % agents)) .. "/v1/chat/completions"
  return wrk.format(nil, path, nil, bodies[n % #bodies + 1])
end
local bad, threads = 0, {}
function setup(thread) table.insert(threads, thread) end
function init(args) non200 = 0 end
function response(status) if status ~= 200 then non200 = non200 + 1 end end
function done(summary, latency)
  local wrong = 0
  for _, t in ipairs(threads) do wrong = wrong + (t:get("non200") or 0) end
  io.write(string.format("RESULT requests=%d seconds=%.3f p50_us=%d p99_us=%d wrong=%d errors=%d body=%d\n", summary.requests, summary.duration / 1e6,
    latency:percentile(50), latency:percentile(99), wrong, summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout, #bodies[1]))
end
