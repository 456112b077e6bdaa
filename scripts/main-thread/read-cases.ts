import { setTimeout as sleep } from "node:timers/promises";

import type { Cases } from "./measure.ts";
import { TAG, type World } from "./world.ts";

const DAY_MS = 86_400_000;
// An account makes at most 100 keys an hour, and the measurements make 46 of them.
const REVOKED_KEYS = 50;
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
    livez: anybody.get("/livez"),
    readyz: anybody.get("/readyz"),
    openapi: anybody.get("/openapi.json"),
    page: anybody.get("/dashboard/"),
    pageScript: plain(anybody.get(await largestAsset(world))),
    reference: plain(anybody.get("/docs")),
    statusCodes: anybody.get("/v1/appendix/status_codes"),
    marketplaces: anybody.get("/v1/appendix/marketplaces"),
    types: owner.get("/v1/appendix/types"),
    status: anybody.get("/v1/appendix/status"),
    taskGetAscii: owner.get(`/v1/tasks/task_get/${ids.ascii}`),
    taskGetWide: owner.get(`/v1/tasks/task_get/${ids.wide}`),
    taskGetInput: owner.get(`/v1/tasks/task_get/${ids.parked}`),
    tasks: owner.get("/v1/tasks?limit=1000"),
    tasksFiltered: owner.get(`/v1/tasks?limit=1000&tag=${tag}&type=echo&state=completed`),
    ready: owner.get("/v1/tasks/tasks_ready?limit=1000"),
    readyHundred: owner.get("/v1/tasks/tasks_ready?limit=100"),
    readyFiltered: owner.get(`/v1/tasks/tasks_ready?limit=1000&tag=${tag}&type=echo`),
    search: operator.get(`/v1/tasks/search?limit=200&q=${encodeURIComponent(WORDS)}`),
    deliveries: owner.get(`/v1/tasks/deliveries/${ids.tried}`),
    attempts: owner.get("/v1/tasks/attempts?limit=1000"),
    timeline: owner.get(`/v1/tasks/timeline/${ids.tried}?time_zone=Europe%2FBerlin`),
    userData: owner.get("/v1/appendix/user_data"),
    overview: {
      pace: "slow",
      ask: async () => {
        await sleep(OVERVIEW_MS);
        return operator.get("/v1/stats/overview");
      },
    },
    series: operator.get(`/v1/stats/series?from=${from}`),
    hosts: operator.get(`/v1/stats/hosts?since=${from}`),
    events: { ask: operator.get("/v1/events"), isStream: true },
  } as const satisfies Cases;
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
