import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { startTestDaemon, type TestDaemon, type TestDaemonOptions } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { workerClient, type WorkerClient } from "./worker-client.ts";

export const NOW = Date.parse("2030-01-31T09:00:00.000Z");
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
export const YEAR = 365 * DAY;
export const PRINT = '[types.print]\nrunner = "worker"\n';

/** A daemon on a virtual clock, which a test may start again on its file. */
export class World {
  daemon: TestDaemon;
  clock: FakeClock;
  readonly #t: TestContext;
  #toml: string;
  #token: string | null = null;

  private constructor(t: TestContext, daemon: TestDaemon, { clock, toml }: Plan) {
    this.#t = t;
    this.daemon = daemon;
    this.clock = clock;
    this.#toml = toml;
  }

  static async start(t: TestContext, { now = NOW, toml = "" } = {}): Promise<World> {
    const plan = { clock: createFakeClock({ now }), toml };
    return new World(t, await startTestDaemon(t, plan), plan);
  }

  /** Stops the daemon, does something, and starts a daemon on the same file. */
  async restart(
    meanwhile: () => void = () => {},
    { clock = this.clock, toml = this.#toml }: Partial<Plan> = {},
  ): Promise<void> {
    const { folder, account, daemon } = this.daemon;
    await daemon.stop();
    meanwhile();
    this.clock = clock;
    this.#toml = toml;
    this.daemon = await startTestDaemon(this.#t, { clock, toml, folder, account });
  }

  /** Lets time pass, each timer at its time, and waits for the end of due work. */
  async advance(ms: number): Promise<void> {
    this.clock.advance(ms);
    await this.daemon.daemon.idle();
  }

  /** Lets time pass unseen, and waits for the end of due work. */
  async jump(ms: number): Promise<void> {
    this.clock.jump(ms);
    await this.daemon.daemon.idle();
    // Ticks find due work each second, and erase and expire each minute.
    await this.advance(0);
  }

  /** The requests of a worker for tasks of type `print`. */
  async worker(): Promise<WorkerClient> {
    this.#token ??= await createTestWorker(this.daemon.file, ["print"]);
    return workerClient({ url: this.daemon.url, token: this.#token });
  }

  /** Posts one task. Returns its id. */
  async post(task: object = {}): Promise<string> {
    const { tasks } = await this.daemon.post([task]);
    return tasks[0]?.id ?? assert.fail();
  }
}

interface Plan extends Pick<TestDaemonOptions, "toml"> {
  readonly clock: FakeClock;
  readonly toml: string;
}
