import { effect, signal } from "@preact/signals";

import type * as DevScript from "../dev/dev.tsx";
import type * as Screens from "../operator/screens.tsx";
import { isDev } from "./api.ts";
import { isOperator } from "./session.ts";

/** The script with the screens for development; null until it is loaded. */
export const devScript = signal<typeof DevScript | null>(null);

/** The script with the operator's screens; null until it is loaded. */
export const operatorScript = signal<typeof Screens | null>(null);

/** Why the operator's script could not be loaded; null if no load failed. */
export const operatorScriptProblem = signal<string | null>(null);

/** Loads each script as soon as it is needed: at a daemon for development, and when an operator is signed in. */
export function watchScripts(): () => void {
  return effect(() => {
    if (isDev.value && devScript.peek() === null) void loadDevScript();
    if (isOperator.value && operatorScript.peek() === null) void loadOperatorScript();
  });
}

async function loadDevScript(): Promise<void> {
  // Without the script the page works as at any daemon; a new page tries again.
  devScript.value = await import("../dev/dev.tsx").catch(() => null);
}

/** Loads the script. A browser repeats the result of the first try, so only a new page can try once more. */
async function loadOperatorScript(): Promise<void> {
  try {
    operatorScript.value = await import("../operator/screens.tsx");
  } catch {
    // The daemon does not respond, or another version names this file differently.
    operatorScriptProblem.value =
      "The operator’s screens could not be loaded: the daemon does not respond, or has a newer version. Reload the page.";
  }
}
