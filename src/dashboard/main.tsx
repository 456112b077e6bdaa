import { render } from "preact";

import { App } from "./app.tsx";
import { watchKeys } from "./shell/keyboard.ts";
import { watchRoute } from "./shell/route.ts";
import { restoreSession } from "./shell/session.ts";

/** The page's beginning: who is signed in, then what the URL asks for. */
async function start(): Promise<void> {
  const root = document.querySelector("#root");
  if (root === null) throw new Error("index.html has no root");
  watchRoute();
  watchKeys();
  await restoreSession();
  render(<App />, root);
}

void start();
