import { helperProcess } from "../kit/helper-process.ts";
import { claimedTasks, KeptConnection, requestText, servedText } from "../kit/http.ts";
import { epochMs } from "../kit/measure.ts";

/** Workers, each on a connection of its own, that claim tasks of a type and complete them. */
interface CrewJob {
  readonly port: number;
  readonly token: string;
  readonly type: string;
  readonly workers: number;
  /** Tasks of one claim and of one completion. */
  readonly batch: number;
  readonly waitSeconds: number;
}

export interface DrainReport {
  tasks: number;
  /** Epoch milliseconds: the first claim was sent, the last completion had its response. */
  readonly startedAt: number;
  endedAt: number;
  /** Every round trip, in milliseconds; empty claims are not among them. */
  readonly claimMs: number[];
  readonly completeMs: number[];
}

class Workers {
  #empty = 0;
  #fault: unknown = null;
  /** Called when a task has arrived, and when it is completed. */
  #arrived: (at: number) => void = () => {};
  #completed: () => void = () => {};

  /** Claim and complete until a claim is empty. Rejects at the first wrong response. */
  async drain(job: CrewJob): Promise<DrainReport> {
    const connections = await openAll(job);
    const startedAt = epochMs();
    const report: DrainReport = {
      ...{ tasks: 0, startedAt, endedAt: startedAt },
      ...{ claimMs: [], completeMs: [] },
    };
    const drainOver = async (connection: KeptConnection): Promise<void> => {
      using _used = connection;
      const round = rounds(connection, job);
      for (let done = await round(); done !== null; done = await round()) {
        report.claimMs.push(done.claimMs);
        report.completeMs.push(done.completeMs);
        report.tasks += done.tasks;
        report.endedAt = epochMs();
      }
    };
    await Promise.all(connections.map(drainOver));
    return report;
  }

  /** Wait for tasks by long polls; settles when every connection is open. */
  async wait(job: CrewJob): Promise<void> {
    for (const connection of await openAll(job)) {
      this.#poll(connection, job).catch((error: unknown) => {
        this.#fault ??= error;
      });
    }
  }

  /** Polls that came back empty so far. Throws if one had a wrong response. */
  empty(): number {
    if (this.#fault !== null) throw this.#fault as Error;
    return this.#empty;
  }

  /**
   * Posts tasks at a port, each when the one before is completed: `request` is a whole request that posts one. Returns
   * how long each took from its sending to the arrival at a worker, in milliseconds.
   */
  async hand(order: {
    readonly port: number;
    readonly request: string;
    readonly posts: number;
  }): Promise<number[]> {
    using poster = await KeptConnection.open(order.port);
    const handMs: number[] = [];
    for (let post = 0; post < order.posts; post++) {
      const arrived = new Promise<number>((resolve) => (this.#arrived = resolve));
      const completed = new Promise<void>((resolve) => (this.#completed = resolve));
      const sentAt = performance.now();
      await poster.ask(order.request);
      handMs.push((await arrived) - sentAt);
      await completed;
    }
    this.empty();
    return handMs;
  }

  async #poll(connection: KeptConnection, job: CrewJob): Promise<void> {
    const round = rounds(connection, job, () => this.#arrived(performance.now()));
    for (;;) {
      if ((await round()) === null) this.#empty++;
      else this.#completed();
    }
  }
}

/** Claims and completes once at each call; null if the claim is empty. */
function rounds(
  connection: KeptConnection,
  { token: secret, type, batch, waitSeconds }: CrewJob,
  onClaimed = (): void => {},
) {
  const order = JSON.stringify({ types: [type], max: batch, wait_seconds: waitSeconds });
  const claim = Buffer.from(requestText("POST /v1/worker/claim", { secret, body: order }));
  return async () => {
    const claimedFrom = performance.now();
    const tasks = claimedTasks(servedText(await connection.ask(claim)));
    const claimMs = performance.now() - claimedFrom;
    if (tasks.length === 0) return null;
    onClaimed();
    const items = tasks.map(({ id, lease_id: leaseId }) => {
      return `{"id":"${id}","lease_id":"${leaseId}","result":{"pages":12,"ok":true}}`;
    });
    const body = `{"tasks":[${items.join(",")}]}`;
    const completedFrom = performance.now();
    const response = await connection.ask(
      requestText("POST /v1/worker/complete", { secret, body }),
    );
    const completeMs = performance.now() - completedFrom;
    const done = servedText(response).split('"outcome":"ok"').length - 1;
    if (done !== tasks.length)
      throw new Error(`only ${done} of ${tasks.length} completions were ok`);
    return { tasks: done, claimMs, completeMs };
  };
}

function openAll({ port, workers }: CrewJob): Promise<readonly KeptConnection[]> {
  return Promise.all(Array.from({ length: workers }, () => KeptConnection.open(port)));
}

export class Crew extends helperProcess(import.meta, Workers) {}
