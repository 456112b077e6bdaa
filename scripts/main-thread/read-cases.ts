import { setTimeout as sleep } from "node:timers/promises";

import type { Case } from "./measure.ts";
import { TAG, type World } from "./world.ts";

const DAY_MS = 86_400_000;
const REVOKED_KEYS = 100;
// A computed overview is shown again for this long.
const OVERVIEW_MS = 1001;

// Many tasks match them, and all have a webhook.
const WORDS = "type:echo state:delayed delivery:waiting after:365d host:example.com";

/** The reads of accounts and of everybody. */
export async function readCases(world: World) {
  const { anybody, owner, operator, ids } = world;
  const tag = encodeURIComponent(TAG);
  const from = new Date(Date.now() - 30 * DAY_MS).toISOString();
  await fillKeys(world);
  return {
    livez: { ask: anybody.get("/livez") },
    readyz: { ask: anybody.get("/readyz") },
    openapi: { ask: anybody.get("/openapi.json") },
    page: { ask: anybody.get("/dashboard/") },
    pageScript: { ask: plain(anybody.get(await largestAsset(world))) },
    statusCodes: { ask: anybody.get("/v1/appendix/status_codes") },
    marketplaces: { ask: anybody.get("/v1/appendix/marketplaces") },
    status: { ask: anybody.get("/v1/appendix/status") },
    taskGetAscii: { ask: owner.get(`/v1/tasks/task_get/${ids.ascii}`) },
    taskGetWide: { ask: owner.get(`/v1/tasks/task_get/${ids.wide}`) },
    taskGetInput: { ask: owner.get(`/v1/tasks/task_get/${ids.parked}`) },
    tasks: { ask: owner.get("/v1/tasks?limit=1000") },
    tasksFiltered: {
      ask: owner.get(`/v1/tasks?limit=1000&tag=${tag}&type=echo&state=completed`),
    },
    ready: { ask: owner.get("/v1/tasks/tasks_ready?limit=1000") },
    readyHundred: { ask: owner.get("/v1/tasks/tasks_ready?limit=100") },
    readyFiltered: { ask: owner.get(`/v1/tasks/tasks_ready?limit=1000&tag=${tag}&type=echo`) },
    search: { ask: operator.get(`/v1/tasks/search?limit=200&q=${encodeURIComponent(WORDS)}`) },
    deliveries: { ask: owner.get(`/v1/tasks/deliveries/${ids.tried}`) },
    timeline: { ask: owner.get(`/v1/tasks/timeline/${ids.tried}?time_zone=Europe%2FBerlin`) },
    userData: { ask: owner.get("/v1/appendix/user_data") },
    overview: {
      pace: "slow",
      ask: async () => {
        await sleep(OVERVIEW_MS);
        return operator.get("/v1/stats/overview");
      },
    },
    series: { ask: operator.get(`/v1/stats/series?from=${from}`) },
    hosts: { ask: operator.get(`/v1/stats/hosts?since=${from}`) },
    events: { ask: operator.get("/v1/events"), isStream: true },
  } as const satisfies Record<string, Case>;
}

function plain(ask: ReturnType<World["anybody"]["get"]>): typeof ask {
  return { ...ask, headers: { "accept-encoding": "identity" } };
}

async function largestAsset({ anybody }: World): Promise<string> {
  const page = await anybody.done(anybody.get("/dashboard/"));
  const found = page.matchAll(/"(\/dashboard\/assets\/[^"]+)"/g);
  const sizes = await Promise.all(
    [...found].map(async ([, path = ""]) => {
      const text = await anybody.done(plain(anybody.get(path)));
      return { path, size: text.length };
    }),
  );
  return sizes.toSorted((a, b) => b.size - a.size)[0]?.path ?? "/dashboard/";
}

async function fillKeys({ owner }: World): Promise<void> {
  const label = "ш".repeat(64);
  const makeAndRevoke = async (): Promise<void> => {
    const text = await owner.done(owner.post("/v1/appendix/keys", { label }));
    const id = /"key_id":"([^"]+)"/.exec(text)?.[1] ?? "";
    await owner.done(owner.delete(`/v1/appendix/keys/${id}`));
  };
  // An account has few keys at once.
  for (let i = 0; i < REVOKED_KEYS; i += 5) {
    await Promise.all(Array.from({ length: 5 }, makeAndRevoke));
  }
}
