import {
  MIB,
  NO_KEY_FROM,
  NUMBERS,
  head as requestHead,
  job,
  posting,
  type SiegeRow,
} from "./row.ts";

const ACCESS_REQUESTS = "/v1/access_requests";
const BODY = { ...NUMBERS, bytes: MIB };
const from = NO_KEY_FROM;

/** Attacks without a key, from one address. */
export const ROWS_WITHOUT_KEY: readonly SiegeRow[] = [
  {
    name: "slow-json",
    who: "no key",
    what: "4 connections send 5.2 MiB/s of `1e9,` to access_requests",
    prepare: async (target) => {
      const request = posting(ACCESS_REQUESTS, BODY);
      return job(target, { shape: "repeat", from, connections: 4, perSecond: 5.2, request });
    },
  },
  {
    name: "json-burst",
    who: "no key",
    what: "200 bodies of 1 MiB of `1e9,` to access_requests, the last bytes together",
    prepare: async (target) => {
      const request = posting(ACCESS_REQUESTS, BODY);
      return job(target, { shape: "burst", from, connections: 200, request });
    },
  },
  {
    name: "sign-in-burst",
    who: "no key",
    what: "100 such bodies to the sign-in",
    prepare: async (target) => {
      const { head, body } = posting("/v1/session", BODY);
      // Without it the sign-in is refused before its body is read.
      const request = { head: `${head}\r\nSec-Fetch-Site: same-origin`, body };
      return job(target, { shape: "burst", from, connections: 100, request });
    },
  },
  {
    name: "unread-pages",
    who: "no key",
    what: "3,500 connections, each 20 pipelined GET /openapi.json, nothing read",
    prepare: async (target) => {
      const request = { head: requestHead("GET /openapi.json"), body: null };
      return job(target, { shape: "unread", from, connections: 3500, pipelined: 20, request });
    },
  },
  {
    name: "endless-bodies",
    who: "no key",
    what: "3,800 bodies of 1 MiB that never end",
    prepare: async (target) => {
      const request = posting(ACCESS_REQUESTS, BODY);
      return job(target, { shape: "endless", from, connections: 3800, request });
    },
  },
  {
    name: "idle-connections",
    who: "no key",
    what: "4,096 kept connections after one GET /livez each",
    prepare: async (target) => {
      const request = { head: requestHead("GET /livez"), body: null };
      return job(target, { shape: "hold", from, connections: 4096, request });
    },
    meanwhile: (target) => target.health(),
  },
];
