import { effect, signal } from "@preact/signals";

import type * as DevScript from "../dev/dev.tsx";
import { isDev } from "./api.ts";

/** The script of what is for development alone; null until it is loaded, which it is at a daemon for development. */
export const devScript = signal<typeof DevScript | null>(null);

/** From now on, loads the script as soon as the daemon has said that it is one; returns a function that stops it. */
export function watchDev(): () => void {
  return effect(() => {
    if (isDev.value && devScript.peek() === null) void load();
  });
}

async function load(): Promise<void> {
  // Without it the page is as elsewhere; a new page tries again.
  devScript.value = await import("../dev/dev.tsx").catch(() => null);
}
