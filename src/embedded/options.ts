import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { AnyTypes, TaskFunction, TaskTypes, TypeName } from "../domain/task/function.ts";
import type { ConfigSettings } from "./config-settings.ts";

/** The settings and results of a program that embeds the daemon: types alone, from which its own types are made. */

/**
 * The argument of `createDaemon`. Nothing else of the program is looked at: no variable, and no file that is not named
 * here.
 */
export interface DaemonSettings<Types extends TaskTypes<Types> = AnyTypes> {
  /** How tasks of each type are run; at least one type. A function alone is `{ run: function }`. */
  readonly types: {
    readonly [Name in TypeName<Types>]: TypeSetting<Types[Name]["input"], Types[Name]["result"]>;
  };
  /** Other settings of a `postbackd.toml`, by the same keys: `{ webhooks: { allow: ["127.0.0.1:9000"] } }`. */
  readonly config?: ConfigSettings | undefined;
  /**
   * Path of the database file, or `postgres://` URL of a database on a server. Without one it is a file in a folder of
   * its own, which `stop` removes.
   */
  readonly database?: string | undefined;
  /** Without a port, or with 0, a free one is found. */
  readonly port?: number | undefined;
  /** The machine's clock unless given; see `createVirtualClock`. */
  readonly clock?: Clock | undefined;
  /** The logger for what an operator should know; `true` writes it to stderr. Silent unless given. */
  readonly log?: Logger | boolean | undefined;
}

type TypeSetting<Input, Result> = TaskFunction<Input, Result> | TypeSettings<Input, Result>;

/** How tasks of one type are run, by the keys of a `[types.NAME]` table. */
export type TypeSettings<Input = unknown, Result = unknown> =
  | (TypeLimitSettings & { readonly run: TaskFunction<Input, Result> })
  | (TypeLimitSettings & { readonly runner: "echo" })
  | (TypeLimitSettings & { readonly runner: "worker"; readonly lease?: string | undefined })
  | (TypeLimitSettings & {
      readonly command: readonly string[];
      readonly env?: Readonly<Record<string, string>> | undefined;
      readonly cwd?: string | undefined;
    })
  | (TypeLimitSettings & {
      readonly url: string;
      readonly headers?: Readonly<Record<string, string>> | undefined;
    });

/** Limits that every kind of type may have. */
export interface TypeLimitSettings {
  /** From the start of a run to its end: `"10s"`, `"5m"`. Ten minutes unless given. */
  readonly timeout?: string | undefined;
  /** The most concurrent runs. */
  readonly concurrency?: number | undefined;
  /** Further runs after one that failed or timed out; none unless given. */
  readonly retries?: number | undefined;
}

/** A newly made account: its key and its webhook secret are shown only this once. */
export interface DaemonAccount {
  readonly login: string;
  readonly key: string;
  readonly webhookSecret: string;
}

/** A daemon in this program. It keeps the process alive, as every server does, until it is stopped. */
export interface EmbeddedDaemon<Types extends TaskTypes<Types> = AnyTypes> {
  /** The base URL, without a slash at its end. */
  readonly url: string;
  readonly port: number;
  /**
   * Makes an account, with a login of its own unless one is given. For an existing login it makes another key; an
   * account may have 20 active ones.
   */
  account(login?: string): Promise<DaemonAccount>;
  /** Makes a worker of this name and answers its token; the types must exist, with `runner: "worker"`. */
  workerToken(name: string, types: readonly TypeName<Types>[]): Promise<string>;
  /** Settles at a moment when no task runs or can be started, and no delivery is in flight or due. */
  idle(): Promise<void>;
  /**
   * Begins nothing new, lets work under way end for `graceMs` of the machine's time (18,000 unless given), then breaks
   * it off. Resolves when the file is closed, and removed unless it was named. Safe to call twice.
   */
  stop(options?: { readonly graceMs?: number | undefined }): Promise<void>;
}

/** The argument of `startDaemon`, of `postbackd/testing`. */
export interface DevSettings<Types extends TaskTypes<Types> = AnyTypes> extends Partial<
  Pick<DaemonSettings<Types>, "types" | "config">
> {
  /** `manual`, the standard: time stands still until the test advances it. `real`: it passes as the machine's does. */
  readonly clock?: "manual" | "real" | undefined;
  /**
   * Makes ids, keys, secrets, faults and the time the same in each run: from 0 to 4,294,967,295. It counts for the whole
   * process: give it to one daemon at a time.
   */
  readonly seed?: number | undefined;
}

/** A daemon for tests in this program. */
export interface DevDaemon {
  readonly url: string;
  /** Sends requests to it, also under fake timers. */
  readonly fetch: typeof globalThis.fetch;
  /** Breaks off what is under way and removes the file. Safe to call twice. */
  stop(): Promise<void>;
}
