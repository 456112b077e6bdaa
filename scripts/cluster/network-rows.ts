import { setTimeout as sleep } from "node:timers/promises";

import { whole, number } from "../kit/flags.ts";
import type { PostgresProxy } from "../kit/postgres-proxy.ts";
import { until } from "../kit/until.ts";
import { defineRow } from "./define-row.ts";
import { BACK_MS_MAX, backFacts, msToProgress, progress, requireAll } from "./measures.ts";
import type { World } from "./world.ts";

// Of cuts. Some meet what cannot be settled at once, such as the heartbeat of a node.
const SLOW_SHARE_MAX = 0.01;
// Of few cuts as well: the machine may be busy.
const SLOW_MAX = 2;
const STUCK_MS_MAX = 120_000;

export const cutConnections = defineRow({
  about: "Cuts connections to PostgreSQL right after a message, at every place of a batch.",
  flags: {
    rounds: whole("cuts", 10_000),
    places: whole("numbers of messages to let pass", 61),
  },
  hasProxy: true,
  async damage(world, fault, values) {
    const { ledger, cluster } = world;
    const proxy = proxyOf(world);
    const back: number[] = [];
    for (let round = 0; round < values.rounds; round++) {
      const cuts = proxy.cuts;
      // In turn each number of messages: so each place of a batch comes.
      proxy.cutAfter(1 + (round % values.places));
      const isCut = (): boolean => proxy.cuts > cuts;
      const stuck = (): string => "nothing passes the proxy";
      await until(isCut, { msMax: STUCK_MS_MAX, everyMs: 1, fault: stuck });
      fault();
      // Or every cut would meet connections that are being made.
      back.push(await msToProgress(ledger, STUCK_MS_MAX));
    }
    await progress(ledger);
    requireAll(cluster);
    const slow = back.filter((ms) => ms > BACK_MS_MAX).length;
    if (slow > SLOW_MAX + values.rounds * SLOW_SHARE_MAX)
      throw new Error(
        `after ${slow} of ${values.rounds} cuts nothing went on in ${BACK_MS_MAX} ms`,
      );
    return [
      ["connections cut", proxy.cuts],
      [`of those slower than ${BACK_MS_MAX} ms`, slow],
      ...backFacts(back),
    ];
  },
});

export const loseData = defineRow({
  about:
    "Of what passes between daemons and PostgreSQL some is lost and sent again later, as TCP does it.",
  flags: {
    seconds: whole("of loss", 120),
    loss: number("per cent of pieces that are lost", 1),
    resend: whole("milliseconds until a piece is sent again, the next time twice as long", 200),
    tries: whole("losses of one piece, after one more of which its connection ends", 1),
  },
  hasProxy: true,
  async damage(world, fault, values) {
    const { ledger, cluster } = world;
    const proxy = proxyOf(world);
    const before = ledger.tasks.size;
    proxy.lose({ rate: values.loss / 100, resendMs: values.resend, triesMax: values.tries });
    for (let second = 0; second < values.seconds; second++) {
      await sleep(1000);
      // Each moment of it may cut something off.
      fault();
    }
    const tasks = ledger.tasks.size - before;
    await progress(ledger);
    proxy.lose(null);
    fault();
    const back = await msToProgress(ledger);
    requireAll(cluster);
    return [
      ["pieces lost", proxy.losses],
      ["connections that ended so", proxy.cuts],
      ["tasks acknowledged a second meanwhile", (tasks / values.seconds).toFixed(0)],
      ...backFacts([back]),
    ];
  },
});

export const haltNetwork = defineRow({
  about: "Delays everything by 200 ms; then nothing passes for some time, and no connection ends.",
  flags: { rounds: whole("halts", 3), seconds: whole("of a halt", 30) },
  hasProxy: true,
  async damage(world, fault, values) {
    const { ledger, cluster } = world;
    const proxy = proxyOf(world);
    const back: number[] = [];
    for (let round = 0; round < values.rounds; round++) {
      proxy.delayMs = 200;
      fault();
      await sleep(values.seconds * 500);
      proxy.delayMs = 0;
      fault();
      await progress(ledger);
      proxy.hold();
      fault();
      await sleep(values.seconds * 1000);
      proxy.release();
      // What was held passes now, and meets those who have taken its work over.
      fault();
      back.push(await msToProgress(ledger));
    }
    requireAll(cluster);
    return [["halts", values.rounds], ...backFacts(back)];
  },
});

function proxyOf({ proxy }: World): PostgresProxy {
  if (proxy === null) throw new Error("there is no proxy");
  return proxy;
}
