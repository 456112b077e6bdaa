import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { after, test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { checkReceiver, startDaemon, type StartedReceiver } from "../../src/testing/testing.ts";
import { verifyPostback } from "../../src/verify.ts";

/** The parts of a receiver in which careless receivers differ. */
interface Manners {
  /** Whether the task is not one of the known ids. */
  readonly isNew: (id: string, headers: Headers, known: Set<string>) => boolean;
  readonly statusOfOld: number;
  readonly isNewer: (version: number, than: number) => boolean;
  /** Whether the signature is valid. */
  readonly verify: (body: string, headers: Headers, secret: string) => boolean | Promise<boolean>;
  readonly parsesFirst: boolean;
  readonly storesLater: boolean;
}

const GOOD: Manners = {
  isNew: (id, _headers, known) => !known.has(id) && known.add(id) !== undefined,
  statusOfOld: 204,
  isNewer: (version, than) => version > than,
  verify: (body, headers, secret) => verifyPostback(body, headers.get("x-signature"), secret),
  parsesFirst: false,
  storesLater: false,
};

async function startReceiver(secret: string, manners: Manners): Promise<StartedReceiver> {
  const known = new Set<string>();
  const effects = { taken: 0, newest: new Map<string, number>() };
  let later = (): void => {};
  const answer = async (body: string, headers: Headers): Promise<number> => {
    if (manners.parsesFirst) JSON.parse(body);
    if (!(await manners.verify(body, headers, secret))) return 401;
    const { id, result } = JSON.parse(body).tasks[0];
    const store = (): number => {
      if (!manners.isNew(id, headers, known)) return manners.statusOfOld;
      effects.taken++;
      const { order, version } = result;
      if (manners.isNewer(version, effects.newest.get(order) ?? 0)) {
        effects.newest.set(order, version);
      }
      return 204;
    };
    if (!manners.storesLater) return store();
    // Stores a webhook when the next one arrives, as a receiver with batches does.
    later();
    later = () => void store();
    return 204;
  };
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = (await buffer(request)).toString();
    const headers = new Headers(Object.entries(request.headers).map(([k, v]) => [k, String(v)]));
    const status = await answer(body, headers).catch(() => 500);
    response.writeHead(status).end();
  };
  const server = createServer((request, response) => void receive(request, response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/postback`;
  return { url, effects: () => effects, stop: () => server.close() };
}

const DUPLICATES = "takes duplicates for new tasks";
const ORDER = "assumes that webhooks come in order";

const takesOlderForKnown: Manners["isNew"] = (id, _headers, known) => {
  const [last = ""] = known;
  if (id <= last) return false;
  known.delete(last);
  known.add(id);
  return true;
};

const RECEIVERS: readonly (readonly [
  who: string,
  carelessness: Partial<Manners>,
  broken: readonly string[],
])[] = [
  ["takes care", {}, []],
  ["counts duplicates", { isNew: () => true }, [DUPLICATES]],
  [
    "knows attempts instead of tasks",
    { isNew: (id, headers, known) => GOOD.isNew(id + headers.get("x-attempt"), headers, known) },
    [DUPLICATES],
  ],
  [
    "remembers the last task alone",
    {
      isNew: (id, _headers, known) => {
        if (known.has(id)) return false;
        known.clear();
        return known.add(id) !== undefined;
      },
    },
    [DUPLICATES],
  ],
  ["fails at what it knows", { statusOfOld: 500 }, ["refuses what it has taken before"]],
  ["takes the last one for the newest", { isNewer: () => true }, [ORDER]],
  ["takes older ids for known ones", { isNew: takesOlderForKnown }, [ORDER]],
  [
    "takes longer for some and older ids for known ones",
    {
      isNew: takesOlderForKnown,
      async verify(body, headers, secret) {
        const isSlow = body.includes('"version":1');
        for (let turns = isSlow ? 200 : 0; turns > 0; turns--) await setImmediate();
        return GOOD.verify(body, headers, secret);
      },
    },
    [ORDER],
  ],
  ["ignores signatures", { verify: () => true }, ["takes what the secret has not signed"]],
  [
    "takes any signature",
    { verify: (_body, headers) => headers.has("x-signature") },
    ["takes what the secret has not signed"],
  ],
  ["parses first", { parsesFirst: true }, ["parses a body before it has verified it"]],
  [
    "verifies what it has parsed",
    {
      verify: (body, headers, secret) =>
        GOOD.verify(JSON.stringify(JSON.parse(body)), headers, secret),
    },
    [
      "parses a body before it has verified it",
      "verifies something else than the bytes of the body",
    ],
  ],
  ["answers first", { storesLater: true }, ["answers before it has stored"]],
  ["refuses everything", { verify: () => false }, ["refuses genuine webhooks"]],
];

const daemon = await startDaemon();
after(() => daemon.stop());

for (const [who, carelessness, broken] of RECEIVERS) {
  test(`the check of a receiver that ${who} finds ${broken.length} faults`, async () => {
    const found = await checkReceiver(daemon, {
      start: (secret) => startReceiver(secret, { ...GOOD, ...carelessness }),
      task: (version) => ({ input: { order: "A17", version } }),
    });

    assert.deepEqual(found, broken);
  });
}
