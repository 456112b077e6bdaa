import { effect, signal } from "@preact/signals";

import type * as DevScript from "../dev/dev.tsx";
import type * as Screens from "../operator/screens.tsx";
import { isDev } from "./api.ts";
import { isOperator } from "./session.ts";

/** The script of what is for development alone; null until it is loaded, which it is at a daemon for development. */
export const devScript = signal<typeof DevScript | null>(null);

/** From now on, loads the script as soon as the daemon has said that it is one; returns a function that stops it. */
export function watchDev(): () => void {
  return effect(() => {
    if (isDev.value && devScript.peek() === null) void loadDevScript();
  });
}

async function loadDevScript(): Promise<void> {
  // Without the script the page works as at any daemon; a new page tries again.
  devScript.value = await import("../dev/dev.tsx").catch(() => null);
}

/** The script with the operator's screens; null until it is loaded, which it is once an operator has signed in. */
export const operatorScript = signal<typeof Screens | null>(null);

/** Why it could not be loaded; null where it could. */
export const operatorScriptProblem = signal<string | null>(null);

/** From now on, loads the script as soon as an operator is signed in; returns a function that stops it. */
export function watchOperator(): () => void {
  return effect(() => {
    if (isOperator.value && operatorScript.peek() === null) void loadOperatorScript();
  });
}

/** Loads the script. A browser gives the answer of the first try again, so only a new page can try once more. */
async function loadOperatorScript(): Promise<void> {
  try {
    operatorScript.value = await import("../operator/screens.tsx");
  } catch {
    // The daemon does not answer, or it is another version by now, which has this file under another name.
    operatorScriptProblem.value =
      "The operator’s screens could not be loaded: the daemon does not answer, or it is a newer one. Load the page again.";
  }
}
