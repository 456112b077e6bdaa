import { statSync } from "node:fs";

import { fillReady } from "./fill-ready.ts";
import { ACCOUNT_FROM, MIB, NUMBERS, head, job, posting, type SiegeRow } from "./row.ts";
import { UNCLAIMED } from "./target.ts";

const TASK_POST = "/v1/tasks/task_post";
const LIST_TASKS = 1000;
const READY_TASKS = 300_000;
const from = ACCOUNT_FROM;

/** What an account does with its key, from many addresses. */
export const ROWS_OF_ACCOUNTS: readonly SiegeRow[] = [
  {
    name: "post-burst",
    who: "account",
    what: "200 bodies of 1 MiB of `1e9,` to task_post, the last bytes together",
    prepare: async (target) => {
      const { key: secret } = await target.account("burster");
      const start = '[{"type":"echo","input":[';
      const request = posting(TASK_POST, { ...NUMBERS, start, end: "0]}]", bytes: MIB, secret });
      return job(target, { shape: "burst", from, connections: 200, request });
    },
  },
  {
    name: "unread-results",
    who: "account",
    what: "one result of 4 MB over 1,100 connections, nothing read",
    prepare: async (target) => {
      const { key } = await target.account("collector");
      const id = await target.finishedWith("collector", `"${"x".repeat(4_000_000)}"`);
      const request = { head: head(`GET /v1/tasks/task_get/${id}`, key), body: null };
      return job(target, { shape: "unread", from, connections: 1100, request });
    },
  },
  {
    name: "unread-lists",
    who: "account",
    what: "GET /v1/tasks?limit=1000 over 3,500 connections, nothing read",
    prepare: async (target) => {
      const { key } = await target.account("lister");
      // As long as they may nearly be: 1,000 of them make a list of megabytes. None is ever sent.
      const url = target.hostUrl("127.0.0.1", `/${"u".repeat(1900)}`);
      const urls = { postback_url: url, pingback_url: url };
      const task = { type: UNCLAIMED, tag: "t".repeat(255), input: {}, ...urls };
      for (let posted = 0; posted < LIST_TASKS; posted += 100) {
        await target.post("lister", Array<object>(100).fill(task));
      }
      const request = { head: head("GET /v1/tasks?limit=1000", key), body: null };
      return job(target, { shape: "unread", from, connections: 3500, request });
    },
  },
  {
    name: "waits",
    who: "account",
    what: "4,096 connections with Prefer: wait=60 for a queued task",
    prepare: async (target) => {
      const { key } = await target.account("waiter");
      const [id = ""] = await target.post("waiter", [{ type: UNCLAIMED, input: {} }]);
      const line = head(`GET /v1/tasks/task_get/${id}`, key);
      const request = { head: `${line}\r\nPrefer: wait=60`, body: null };
      return job(target, { shape: "hold", from, connections: 4096, request });
    },
    meanwhile: (target) => target.health(),
  },
  {
    name: "fill-up",
    who: "account",
    what: "posts of 1 MiB from 4 connections, room for 128 MiB",
    limits: ['database_size = "128MiB"', 'account.bytes = "32MiB"'],
    prepare: async (target) => {
      const { key: secret } = await target.account("filler");
      const text = { start: `[{"type":"${UNCLAIMED}","input":{"x":"`, element: "x", end: '"}}]' };
      const request = posting(TASK_POST, { ...text, bytes: MIB - 100, secret });
      return job(target, { shape: "repeat", from, connections: 4, request });
    },
    after: async (target) => {
      const megabytes = (): string => `${(statSync(target.database).size / 1e6).toFixed(0)} MB`;
      const full = megabytes();
      const isDisabled = await target.admin(["account", "disable", "filler"]);
      const isErased = await target.admin(["account", "erase", "filler", "--yes"]);
      const ends = `disable ${isDisabled ? "done" : "refused"}, erase ${isErased ? "done" : "not known"}`;
      return `file ${full}; ${ends}; then ${megabytes()}`;
    },
  },
  {
    name: "ready-filter",
    who: "account",
    what: "tasks_ready?tag=…&type=… over 300,000 ready tasks, 4 connections",
    fill: (target) => fillReady(target, { login: "stacker", tag: "bulk", tasks: READY_TASKS }),
    prepare: async (target) => {
      const { key } = await target.account("stacker");
      const path = `/v1/tasks/tasks_ready?tag=bulk&type=${UNCLAIMED}`;
      const request = { head: head(`GET ${path}`, key), body: null };
      return job(target, { shape: "repeat", from, connections: 4, request });
    },
  },
  {
    name: "large-results",
    who: "account",
    what: "50 task_get of 1.8 MB at once, again and again",
    prepare: async (target) => {
      const { key } = await target.account("reader");
      const numbers = `[${"1e9,".repeat(450_000)}0]`;
      const id = await target.finishedWith("reader", numbers);
      const request = { head: head(`GET /v1/tasks/task_get/${id}`, key), body: null };
      return job(target, { shape: "repeat", from, connections: 50, request });
    },
  },
];
