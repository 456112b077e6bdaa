import type { Store } from "../store.ts";

/** The store's methods as they run on a connection: with the arguments of the method, and an immediate result. */
export type Steps = {
  readonly [Name in keyof Store]?: Store[Name] extends (...args: infer Args) => Promise<infer Value>
    ? (...args: Args) => Value
    : never;
};
