import type { LoadGenerator } from "../kit/load-generator.ts";
import type { Arrivals, BenchReceiver } from "./receiver.ts";

/** Longer than any measurement takes, on a slow disk too. */
export const DELIVERED_MS_MAX = 300_000;

/** Tasks to post, all alike, whose webhooks go to a receiver. */
export interface Delivery {
  /** Of the server, on 127.0.0.1. */
  readonly port: number;
  readonly connections: number;
  /** A whole task_post request, which names the receiver. */
  readonly request: string;
  readonly tasksPerRequest: number;
  /** How many; the last request may post more. */
  readonly tasks: number;
  /** The secret that their webhooks are signed with. */
  readonly secret: string;
  readonly generator: LoadGenerator;
  readonly receiver: BenchReceiver;
}

/**
 * Posts the tasks, and settles when the webhook of each has arrived. Rejects unless each arrived once and signatures
 * are right.
 */
export async function deliverAll(delivery: Delivery): Promise<Arrivals> {
  const { port, connections, request, tasksPerRequest, secret, generator, receiver } = delivery;
  const answers = Math.ceil(delivery.tasks / tasksPerRequest);
  const tasks = answers * tasksPerRequest;
  const arrived = receiver.ask("expect", { tasks, secret, withinMs: DELIVERED_MS_MAX });
  await generator.ask("run", { port, connections, request, warmUpMs: 0, until: { answers } });
  const arrivals = await arrived;
  requireAll(arrivals, tasks);
  return arrivals;
}

function requireAll({ tasks, repeated, badSignatures }: Arrivals, expected: number): void {
  if (tasks < expected) throw new Error(`only ${tasks} of ${expected} postbacks arrived`);
  if (repeated > 0) throw new Error(`${repeated} postbacks arrived twice, without a crash`);
  if (badSignatures > 0) throw new Error(`${badSignatures} postbacks had a bad signature`);
}
