import { Cluster } from "../kit/cluster.ts";
import type { DaemonPlace } from "../kit/daemon-file.ts";
import { spreadOf, type Spread } from "../kit/durations.ts";
import { taskPostRequest } from "../kit/request.ts";
import { Crew } from "./crew.ts";
import { WAIT_SECONDS } from "./idle.ts";

/** A worker that waits at one node while tasks are posted at another. */
export interface OtherNodeOptions {
  readonly place: DaemonPlace;
  /** Of an empty database on a server. */
  readonly url: string;
  readonly posts: number;
  /** Whether nodes tell each other what they did, or only look for it. */
  readonly how: "notified" | "polled";
}

const TYPE = "leased";

/**
 * Posts tasks at a node, each when the one before is completed, and answers how long each took to the worker at the
 * other. Without notifications a post comes right after a look, and so it waits for nearly all of the time to the next.
 */
export async function measureOtherNode(options: OtherNodeOptions): Promise<Spread> {
  const { place, url, posts, how } = options;
  const more = `\n[types.${TYPE}]\nrunner = "worker"\nlease = "30s"\n`;
  const flags = how === "polled" ? ["--no-notify"] : [];
  await using cluster = await Cluster.start({ place, url, nodes: 2, more, flags });
  const token = await cluster.createWorker("bench", [TYPE]);
  using crew = new Crew();
  const { port } = cluster.node(1).daemon;
  const waits = { workers: 1, batch: 1, waitSeconds: WAIT_SECONDS };
  await crew.ask("wait", { port, token, type: TYPE, ...waits });
  const request = taskPostRequest({ key: cluster.account.key, tasks: 1, type: TYPE });
  const order = { port: cluster.node(0).daemon.port, request, posts };
  return spreadOf(await crew.ask("hand", order));
}
