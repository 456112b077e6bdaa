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

/** The cluster of a test: three nodes on a database of its own by default. */
export type Wanted = Partial<
  Pick<ClusterOptions, "url" | "nodes" | "more" | "flagsOf" | "allowed">
> &
  Pick<ClusterOptions, "programOf">;

/** A cluster, and clients of its account. */
export interface StartedCluster {
  readonly cluster: Cluster;
  /** Through the balancer, which sends each request to the next node. */
  readonly client: TaskClient;
  /** Of one node, by its index. */
  readonly at: (index: number) => TaskClient;
}

/** Starts nodes on one database, ended after the test. */
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

/** A node as `admin node list` shows it: the fields that tests read. */
export interface ListedNode {
  readonly name: string;
  readonly joined_at: string;
  readonly ended_at: string | null;
}

/** The nodes that the command line lists, newest first. */
export async function listNodes({ admin }: Cluster): Promise<readonly ListedNode[]> {
  const words = ["admin", "node", "list", "--json", "--db", admin.database];
  const { error, stdout, stderr } = await runProgram(words, admin);
  assert.equal(error, null, stderr);
  return (JSON.parse(stdout) as { readonly nodes: readonly ListedNode[] }).nodes;
}

/** The bundle that a run of all tests makes, otherwise the sources. */
export function testedProgram(): Program {
  const bundle = process.env["POSTBACKD_TEST_PROGRAM"];
  if (bundle === undefined) return sourceProgram();
  return { name: "the bundle of the tests", command: [process.execPath, bundle] };
}
