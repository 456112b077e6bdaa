import { newEmptyDatabase, openTestStore } from "../helpers/store.ts";
import type { OpenedStore, OpenStore } from "./conformance.ts";

/** Opens stores in SQLite whose writes are done by a thread, or where they are asked for. */
export function openWith(writer: "thread" | "inline"): OpenStore {
  return async (t, options = {}) => {
    const file = await newEmptyDatabase(t);
    const again: OpenedStore["again"] = (limits = options) =>
      openTestStore(t, { ...limits, file, writer });
    return { store: await again(), again };
  };
}
