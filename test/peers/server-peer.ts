import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";

import type { TestAccount } from "../helpers/daemon.ts";
import { CHANGES, replay } from "./changes.ts";
import { PHASES, startDeliveries } from "./deliveries.ts";
import type { Deliveries, Phase, Signers } from "./deliveries.ts";
import { arrivalOf, MATRIX, taskOf } from "./matrix.ts";
import type { Case, Kind, Place } from "./matrix.ts";
import { areAtHand, canListen, OWN_ADDRESS } from "./peer-process.ts";
import type { PeerAddress, PeerProgram } from "./peer-process.ts";
import { headerOf, startRelay } from "./relay.ts";
import type { Exchange, Relay, WireRequest } from "./relay.ts";

/** A server that takes deliveries and answers 200 to what is signed as it should be, 401 to all else. */
export interface ServerPeer {
  readonly name: string;
  /** What it is run with. */
  readonly programs: readonly PeerProgram[];
  /** The kinds of delivery that it can judge. */
  readonly kinds: readonly Kind[];
  start(t: TestContext, signers: Signers): Promise<PeerAddress>;
}

/** The test of a peer: the matrix in every phase of a rotation, and what it has to refuse. */
export function exerciseServer(peer: ServerPeer): void {
  test(`${peer.name} judges deliveries`, { timeout: 60_000 }, async (t) => {
    if (!areAtHand(t, peer.programs)) return;
    const deliveries = await startDeliveries(t);
    for (const phase of PHASES) {
      const signers = await deliveries.enter(phase);
      await t.test(phase, (t) => exercisePhase(t, { peer, deliveries, phase, signers }));
    }
    await t.test("a receiver that still has the former secret refuses", async (t) => {
      const signers = { current: deliveries.account.secret, next: null };
      const route = await openRoute(t, { peer, deliveries, signers });
      assert.deepEqual(await route.statuses(PLAIN), allAre(peer, PLAIN, 401));
    });
  });
}

interface Setup {
  readonly peer: ServerPeer;
  readonly deliveries: Deliveries;
  readonly signers: Signers;
}

async function exercisePhase(
  t: TestContext,
  setup: Setup & { readonly phase: Phase },
): Promise<void> {
  const { peer, deliveries, phase } = setup;
  const route = await openRoute(t, setup);
  const cases = MATRIX.filter((each) => each.isAtDefaultPort !== true || route.hasDefaultPort);

  await t.test("every delivery is accepted", async (t) => {
    assert.deepEqual(await route.statuses(cases), allAre(peer, cases, 200));
    if (!route.hasDefaultPort) t.diagnostic(NO_DEFAULT_PORT);
  });

  await t.test("another account's delivery is refused", async () => {
    const statuses = await route.statuses(PLAIN, deliveries.stranger);
    assert.deepEqual(statuses, allAre(peer, PLAIN, 401));
  });

  const changes = CHANGES.filter(({ phases }) => phases.includes(phase));
  for (const { kinds, name, change } of changes) {
    for (const kind of kinds.filter((each) => peer.kinds.includes(each))) {
      await t.test(`${kind}: refused with ${name}`, async () => {
        const { request } = await route.sample(kind);
        assert.equal(await route.replay(request), 200, "as it was sent");
        assert.equal(await route.replay(change(request)), 401);
      });
    }
  }
}

// Where one delivery says it all.
const PLAIN = MATRIX.slice(0, 1);

const NO_DEFAULT_PORT = "the case 'default port' is left out: port 80 cannot be listened on here";

/** The way from the daemon to a running peer. */
interface Route {
  readonly hasDefaultPort: boolean;
  /** Has the cases delivered; gives the peer's answers by case and kind. */
  statuses(cases: readonly Case[], by?: TestAccount): Promise<Readonly<Record<string, number>>>;
  /** A delivery that the peer has accepted, of the case with escapes in its URL. */
  sample(kind: Kind): Promise<Exchange>;
  /** Sends a request to the peer; gives the status of its answer. */
  replay(request: WireRequest): Promise<number>;
}

async function openRoute(t: TestContext, { peer, deliveries, signers }: Setup): Promise<Route> {
  const address = await peer.start(t, signers);
  const near = { host: OWN_ADDRESS, peer: address };
  const relay = await startRelay(t, { ...near, port: 0 });
  const hasDefaultPort = await canListen({ host: OWN_ADDRESS, port: 80 });
  const relayAtDefaultPort = hasDefaultPort ? await startRelay(t, { ...near, port: 80 }) : null;
  const relayOf = (each: Case): Relay =>
    each.isAtDefaultPort === true ? (relayAtDefaultPort ?? assert.fail(NO_DEFAULT_PORT)) : relay;

  async function deliver(each: Case, by: TestAccount): Promise<readonly Exchange[]> {
    const { port, answered } = relayOf(each);
    const place: Place = { address: OWN_ADDRESS, port };
    const id = await deliveries.post(taskOf(each, place), by);
    return Promise.all(
      peer.kinds.map(async (kind) => {
        const exchange = await answered(`${id}-${kind}`);
        const { request } = exchange;
        const arrived = { host: headerOf(request, "host"), target: request.target };
        assert.deepEqual(arrived, arrivalOf(each, { kind, id, place }));
        return exchange;
      }),
    );
  }

  return {
    hasDefaultPort,
    async statuses(cases, by = deliveries.account) {
      const exchanges = await Promise.all(cases.map((each) => deliver(each, by)));
      const named = cases.flatMap((each, index) =>
        peer.kinds.map((kind, at) => [labelOf(each, kind), exchanges[index]?.[at]?.status ?? -1]),
      );
      return Object.fromEntries(named);
    },
    async sample(kind) {
      const escaped = MATRIX.find(({ path }) => path.includes("%2F")) ?? assert.fail();
      const exchanges = await deliver(escaped, deliveries.account);
      return exchanges[peer.kinds.indexOf(kind)] ?? assert.fail();
    },
    replay: (request) => replay(address, request),
  };
}

function labelOf(each: Case, kind: Kind): string {
  return `${each.name} ${kind}`;
}

function allAre(
  peer: ServerPeer,
  cases: readonly Case[],
  status: number,
): Readonly<Record<string, number>> {
  const labels = cases.flatMap((each) => peer.kinds.map((kind) => labelOf(each, kind)));
  return Object.fromEntries(labels.map((label) => [label, status]));
}
