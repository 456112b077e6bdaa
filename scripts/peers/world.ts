import { randomBytes } from "node:crypto";
import { dirname } from "node:path";

import { BenchReceiver } from "../bench/receiver.ts";
import { newDatabases, startBenchServer } from "../kit/bench-server.ts";
import type { DaemonPlace } from "../kit/daemon-file.ts";
import { LoadGenerator } from "../kit/load-generator.ts";
import { RedisServer, type RedisSync } from "../kit/redis-server.ts";

/** How much to measure at a time. */
export interface Effort {
  /** Of the whole way to the webhook. */
  readonly tasks: number;
  /** Of what is measured for a time. */
  readonly seconds: number;
}

/** A server, by the process that all others of it come from. */
interface Postgres extends Required<Pick<DaemonPlace, "newDatabase">> {
  readonly pid: number;
}

/** How every row is posted to. */
export const CONNECTIONS = 16;
export const TASKS_PER_REQUEST = 10;

/** What the rows of a run share: where they lie, who posts to them, and where their webhooks go. */
export class World implements AsyncDisposable {
  readonly place: DaemonPlace;
  readonly effort: Effort;
  readonly postbackUrl: string;
  readonly receiver: BenchReceiver;
  readonly generator: LoadGenerator;
  /** Of every peer. */
  readonly key = randomBytes(24).toString("hex");
  readonly secret = randomBytes(24).toString("hex");
  readonly #stack: AsyncDisposableStack;
  #postgres: Promise<Postgres> | null = null;

  private constructor(
    { place, effort }: Pick<World, "place" | "effort">,
    parts: Pick<World, "receiver" | "generator" | "postbackUrl"> & {
      readonly stack: AsyncDisposableStack;
    },
  ) {
    this.place = place;
    this.effort = effort;
    this.receiver = parts.receiver;
    this.generator = parts.generator;
    this.postbackUrl = parts.postbackUrl;
    this.#stack = parts.stack;
  }

  static async open(settings: Pick<World, "place" | "effort">): Promise<World> {
    const stack = new AsyncDisposableStack();
    const receiver = stack.use(new BenchReceiver());
    const generator = stack.use(new LoadGenerator());
    const postbackUrl = `${await receiver.ask("open")}/postback`;
    return new World(settings, { receiver, generator, postbackUrl, stack });
  }

  /** Lets go of it, with this. */
  use<Part extends Disposable | AsyncDisposable>(part: Part): Part {
    return this.#stack.use(part);
  }

  /** The one server of all rows that need one. */
  postgres(): Promise<Postgres> {
    this.#postgres ??= startBenchServer(this.#parent).then((server) => {
      const { pid } = this.use(server);
      return { pid, ...newDatabases(server) };
    });
    return this.#postgres;
  }

  async redis(sync: RedisSync): Promise<RedisServer> {
    return this.use(await RedisServer.start(this.#parent, sync));
  }

  /** Beside the folder of the command: what a server's own user cannot enter is no place for its data. */
  get #parent(): string {
    return dirname(this.place.folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}
