import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { PHASES, startDeliveries } from "./deliveries.ts";
import type { Signers } from "./deliveries.ts";
import { MATRIX, taskOf } from "./matrix.ts";
import type { Kind } from "./matrix.ts";
import { areAtHand } from "./peer-process.ts";
import type { PeerAddress, PeerProgram } from "./peer-process.ts";

/** A server that responds 200 to a delivery with the right signatures and 401 to all others. */
export interface ServerPeer {
  readonly name: string;
  readonly programs: readonly PeerProgram[];
  /** The kinds of delivery that it can judge. */
  readonly kinds: readonly Kind[];
  start(t: TestContext, signers: Signers): Promise<PeerAddress>;
}

// A test of its own judges the default port: port 80 is often not available.
const CASES = MATRIX.filter(({ isAtDefaultPort }) => isAtDefaultPort !== true);

/** The test of a peer: the matrix in every phase of a rotation, and a delivery of another account. */
export function exerciseServer(peer: ServerPeer): void {
  test(
    `${peer.name} accepts every delivery while a secret rotates, and none of another account`,
    { timeout: 60_000 },
    async (t) => {
      if (!areAtHand(t, peer.programs)) return;
      const deliveries = await startDeliveries(t);
      for (const phase of PHASES) {
        const { host: address, port } = await peer.start(t, await deliveries.enter(phase));
        const tasks = CASES.map((each) => taskOf(each, { address, port }));
        for (const [index, statuses] of (await deliveries.statuses(tasks)).entries()) {
          const name = `${CASES[index]?.name}, ${phase}`;
          for (const kind of peer.kinds) assert.equal(statuses[kind], 200, `${name}: ${kind}`);
        }
        const [refused] = await deliveries.statuses(tasks.slice(0, 1), deliveries.stranger);
        for (const kind of peer.kinds) assert.equal(refused?.[kind], 401, kind);
      }
    },
  );
}
