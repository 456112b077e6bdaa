import { render } from "preact";

import { App } from "./app.tsx";
import { watchKeys } from "./shell/keyboard.ts";
import { watchRoute } from "./shell/route.ts";
import { restoreSession } from "./shell/session.ts";

/** Starts the page: finds out who is signed in, then shows the screen of the URL. */
async function start(): Promise<void> {
  const root = document.querySelector("#root");
  if (root === null) throw new Error("index.html has no root");
  watchRoute();
  watchKeys();
  await restoreSession();
  render(<App />, root);
}

void start();
