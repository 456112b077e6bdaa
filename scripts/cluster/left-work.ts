import pg from "pg";

import type { ClusterNode } from "../kit/cluster.ts";
import { spreadOf } from "../kit/durations.ts";
import { acceptedIds } from "../kit/request.ts";
import { until } from "../kit/until.ts";
import { bookPost } from "../soak/client.ts";
import { BACK_MS_MAX } from "./measures.ts";
import type { Fact } from "./run-row.ts";
import type { AnsweredPost, World } from "./world.ts";

/** The runs of a daemon that was killed, and how the others fare meanwhile. */

const RUNS_OF = `
  SELECT q.task_seq::float8 AS seq FROM queue AS q JOIN nodes AS n ON n.seq = q.node_seq
  WHERE q.state = 'running' AND n.name = $1`;

// Of these tasks: those that still wait for another run.
const NOT_AGAIN = `
  SELECT count(*)::int AS count FROM queue AS q LEFT JOIN nodes AS n ON n.seq = q.node_seq
  WHERE q.task_seq = ANY($1::bigint[]) AND (q.state <> 'running' OR n.name = $2)`;

const RUN_MS_MAX = 30_000;
const POLL_MS = 20;

/** Posts tasks that take two seconds, until the daemon runs one. */
export async function untilItRuns(world: World, { name }: ClusterNode, round: number) {
  const { database, cluster } = world;
  const client = await connect(database.url);
  await postParked(world, { key: `parked-${round}`, count: cluster.nodes.length });
  const isRunning = async (): Promise<boolean> =>
    (await client.query(RUNS_OF, [name])).rows.length > 0;
  const fault = (): string => `${name} runs nothing`;
  await until(isRunning, { msMax: RUN_MS_MAX, everyMs: POLL_MS, fault });
  await client.end();
}

/** Settles when the runs that a killed daemon left have started elsewhere: after how long, null where it left none. */
export async function msToElsewhere(url: string, { name }: ClusterNode): Promise<number | null> {
  const since = performance.now();
  const client = await connect(url);
  const { rows } = await client.query<{ seq: number }>(RUNS_OF, [name]);
  const seqs = rows.map(({ seq }) => seq);
  const areAgain = async (): Promise<boolean> => {
    const { rows: left } = await client.query<{ count: number }>(NOT_AGAIN, [seqs, name]);
    return left[0]?.count === 0;
  };
  const fault = (): string => `what ${name} ran has not started elsewhere within ${BACK_MS_MAX} ms`;
  await until(areAgain, { msMax: BACK_MS_MAX, everyMs: POLL_MS, fault });
  await client.end();
  return seqs.length === 0 ? null : performance.now() - since;
}

/** A time in which a daemon was away, on the clock of `performance`. */
export interface Absence {
  readonly from: number;
  readonly to: number;
}

/** How long posts took that were answered at once: while all daemons ran, and while one was away. */
export function postFacts(
  posts: readonly AnsweredPost[],
  absences: readonly Absence[],
): readonly Fact[] {
  const isAway = ({ sentAt }: AnsweredPost): boolean =>
    absences.some(({ from, to }) => sentAt >= from && sentAt < to);
  const msOf = (away: boolean): readonly number[] =>
    posts.flatMap((post) => (isAway(post) === away ? post.ms : []));
  const [all, away] = [spreadOf(msOf(false)), spreadOf(msOf(true))];
  return [
    [`a post while all run, p99 ms of ${all.count}`, all.p99Ms.toFixed(0)],
    [`a post at the others while one is away, p99 ms of ${away.count}`, away.p99Ms.toFixed(0)],
  ];
}

async function postParked(
  { address, client, ledger, cluster }: World,
  { key, count }: { readonly key: string; readonly count: number },
): Promise<void> {
  const { postbackUrl, pingbackUrl } = client.webhooks;
  const body = { type: "parked", input: {} };
  const tasks = Array.from({ length: count }, () => ({ body, cancelAfterMs: null }));
  const urls = { postback_url: postbackUrl, pingback_url: pingbackUrl };
  const { key: secret } = cluster.account;
  const answer = await address.ask("/v1/tasks/task_post", {
    secret,
    headers: { "idempotency-key": key },
    body: JSON.stringify(tasks.map((task) => ({ ...task.body, ...urls, tag: key }))),
  });
  const post = {
    kind: "post",
    key,
    tasks,
    ids: acceptedIds(answer.text),
    wasCutOff: false,
  } as const;
  bookPost(post, { ledger, apiKey: secret });
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  return client;
}
