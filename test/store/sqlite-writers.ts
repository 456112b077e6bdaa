import type { Store } from "../../src/store/store.ts";
import { newDatabaseFile, openTestStore } from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** Opens stores in SQLite whose writes are done by a thread, or where they are asked for. */
export function openWith(writer: "thread" | "inline"): OpenStore {
  return async (t, options = {}) => {
    const file = newDatabaseFile(t);
    const again = (): Promise<Store> => openTestStore(t, { ...options, file, writer });
    return { store: await again(), again };
  };
}
