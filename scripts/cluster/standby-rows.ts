import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";

import { toggle, whole } from "../kit/flags.ts";
import type { PostgresServer } from "../kit/postgres-server.ts";
import { until } from "../kit/until.ts";
import { defineRow } from "./define-row.ts";
import {
  BACK_MS_MAX,
  backFacts,
  msToProgress,
  progress,
  requireAll,
  requireWarning,
} from "./measures.ts";
import type { Fact } from "./run-row.ts";
import type { World } from "./world.ts";

const ROUNDS = { rounds: whole("failovers", 10) };

export const failOver = defineRow({
  about:
    "The server dies or is stopped; its synchronous standby is promoted, and gets one of its own.",
  flags: { ...ROUNDS, clean: toggle("the server is stopped in order, not killed") },
  standby: "sync",
  damage: (world, fault, { rounds, clean }) =>
    failOverAgain({ rounds, how: clean ? "stop" : "kill", isSync: true, world, fault }),
});

export const failOverAsync = defineRow({
  about:
    "kill -9 of a server with a standby that no commit waits for: what is lost, and what becomes of the rest.",
  flags: ROUNDS,
  standby: "async",
  mayLose: true,
  damage: (world, fault, { rounds }) =>
    failOverAgain({ rounds, how: "kill", isSync: false, world, fault }),
});

interface Failovers {
  readonly rounds: number;
  readonly how: "stop" | "kill";
  /** Whether commits wait for the standby. */
  readonly isSync: boolean;
  readonly world: World;
  readonly fault: () => void;
}

async function failOverAgain(given: Failovers): Promise<readonly Fact[]> {
  const { rounds, how, isSync, world, fault } = given;
  const { server, ledger, cluster, database } = world;
  let [primary, standby] = [server, standbyOf(world)];
  const back: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await progress(ledger);
    await (how === "stop" ? primary.shutDown() : primary.kill());
    fault();
    await standby.promote();
    back.push(await msToProgress(ledger));
    // What the old server may have told last is told again.
    fault();
    if (!isSync) await isLossLogged(cluster);
    const { port } = primary;
    await primary.stop();
    primary = standby;
    database.url = primary.url;
    // At the port that the daemons know.
    standby = await world.follow(primary, port);
    await isFollowed(primary, isSync ? "sync" : "async");
  }
  requireAll(cluster);
  const what = how === "stop" ? "the server was stopped" : "kill -9 of the server";
  return [[what, rounds], ...backFacts(back)];
}

/** Settles when a daemon has told its operator. */
async function isLossLogged({ nodes }: World["cluster"]): Promise<void> {
  const isLogged = () =>
    nodes.some(({ daemon }) => daemon.log.includes("has lost what it had acknowledged"));
  await until(isLogged, { msMax: BACK_MS_MAX, fault: () => "no daemon tells of the loss" });
}

/** Settles when a standby has all that the server has. */
async function isFollowed({ url }: PostgresServer, state: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const follows = `SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '${state}'`;
  try {
    const fault = (): string => "no standby follows";
    await until(async () => (await client.query(follows)).rows.length > 0, {
      msMax: 60_000,
      fault,
    });
  } finally {
    await client.end();
  }
}

export const loseStandby = defineRow({
  about: "The only synchronous standby is gone for some time: nothing is acknowledged meanwhile.",
  flags: { rounds: whole("times", 3), seconds: whole("that it is away", 20) },
  standby: "sync",
  async damage(world, fault, values) {
    const { ledger, cluster } = world;
    const standby = standbyOf(world);
    const back: number[] = [];
    for (let round = 0; round < values.rounds; round++) {
      await progress(ledger);
      await standby.kill();
      fault();
      // What had reached it is acknowledged still, long before all of them say why they acknowledge nothing.
      for (const { url } of cluster.nodes) await requireWarning(url, /nothing is acknowledged/);
      const before = ledger.tasks.size;
      await sleep(values.seconds * 1000);
      if (ledger.tasks.size > before) throw new Error("acknowledged without the standby");
      await standby.startAgain();
      back.push(await msToProgress(ledger));
    }
    requireAll(cluster);
    return [["times without a standby", values.rounds], ...backFacts(back)];
  },
});

function standbyOf({ standby }: World): PostgresServer {
  if (standby === null) throw new Error("there is no standby");
  return standby;
}
