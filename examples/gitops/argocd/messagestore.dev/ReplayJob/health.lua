-- The health of a messagestore.dev resource for Argo CD, from its conditions; all three kinds have the same script.
local health = {status = "Progressing", message = "waiting for the operator to look at it"}
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "being deleted"
  return health
end
local status = obj.status
-- A status of an older generation does not describe this spec.
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end
local function holds(type)
  return conditions[type] ~= nil and conditions[type].status == "True"
end

local ready = conditions.Ready
if ready ~= nil then
  health.message = ready.message
end
if holds("Stalled") or holds("Failed") or holds("Degraded") then
  health.status = "Degraded"
elseif holds("Ready") and not holds("Reconciling") then
  -- A resource that waits for a person is neither degraded nor progressing.
  local waits = ready.reason == "Suspended" or ready.reason == "AwaitingApproval"
  health.status = waits and "Suspended" or "Healthy"
end
return health
