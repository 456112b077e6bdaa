import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { Cluster, type ClusterNode, type ClusterOptions } from "../../scripts/kit/cluster.ts";
import { type Program, runProgram, sourceProgram } from "../../scripts/kit/daemon.ts";
import { afterwards } from "../helpers/afterwards.ts";
import { newDatabaseUrl } from "../helpers/postgres.ts";
import { taskClient, type TaskClient } from "../helpers/task-client.ts";

/** How a test wants its cluster: three nodes on a database of its own unless told. */
export type Wanted = Partial<
  Pick<ClusterOptions, "url" | "nodes" | "base" | "more" | "flags" | "flagsOf" | "allowed">
> &
  Pick<ClusterOptions, "urlOf" | "programOf">;

/** A cluster, and clients of its account. */
export interface StartedCluster {
  readonly cluster: Cluster;
  /** Through the balancer: each request elsewhere. */
  readonly client: TaskClient;
  /** Of one node alone, by its place. */
  readonly at: (index: number) => TaskClient;
}

/** Starts daemons on one database, ended after the test. */
export async function startCluster(t: TestContext, wanted: Wanted = {}): Promise<StartedCluster> {
  const url = wanted.url ?? (await newDatabaseUrl(t));
  const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  afterwards(t, () => rmSync(folder, { recursive: true, force: true }));
  const place = { program: testedProgram(), folder };
  const cluster = await Cluster.start({ nodes: 3, ...wanted, place, url });
  afterwards(t, () => cluster[Symbol.asyncDispose]());
  const { key } = cluster.account;
  const at = (index: number): TaskClient => taskClient({ url: cluster.node(index).url, key });
  return { cluster, client: taskClient({ url: cluster.url, key }), at };
}

/** The node in whose folder a run was started. */
export function nodeNamed(cluster: Cluster, folderName: string): ClusterNode {
  const node = cluster.nodes.find((each) => each.folderName === folderName);
  if (node === undefined) throw new Error(`no node of the cluster works in ${folderName}`);
  return node;
}

/** Settles when each node has been heard since the last one joined: then each knows of all others. */
export async function settled(cluster: Cluster): Promise<void> {
  for (;;) {
    const nodes = (await listNodes(cluster)).filter(({ ended_at: endedAt }) => endedAt === null);
    const joined = nodes.map(({ joined_at: joinedAt }) => Date.parse(joinedAt));
    const seen = nodes.map(({ last_seen_at: seenAt }) => Date.parse(seenAt));
    if (Math.min(...seen) > Math.max(...joined)) return;
  }
}

/** A node as `admin node list` shows it; only what tests look at. */
export interface ListedNode {
  readonly name: string;
  readonly joined_at: string;
  readonly last_seen_at: string;
  readonly ended_at: string | null;
  readonly roles: readonly string[];
}

/** What the command line lists, the newest first. */
export async function listNodes({ admin }: Cluster): Promise<readonly ListedNode[]> {
  const words = ["admin", "node", "list", "--json", "--db", admin.database];
  const { error, stdout, stderr } = await runProgram(words, admin);
  assert.equal(error, null, stderr);
  return (JSON.parse(stdout) as { readonly nodes: readonly ListedNode[] }).nodes;
}

/** In a run of all tests the bundle that was made for it, as other tests that start the program do. */
export function testedProgram(): Program {
  const bundle = process.env["POSTBACKD_TEST_PROGRAM"];
  if (bundle === undefined) return sourceProgram();
  return { name: "the bundle of the tests", command: [process.execPath, bundle] };
}
