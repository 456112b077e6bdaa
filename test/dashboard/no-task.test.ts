import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import type { TestDaemon } from "../helpers/daemon.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { areAtHand } from "../peers/peer-process.ts";
import { hasBrowser, openPage, signIn } from "./browser.ts";
import { mark, signInAsOperator, takeSteps } from "./visit.ts";

const SEVERAL_TYPES = `
[types.transcode]
runner = "worker"
[types.copy]
runner = "echo"
`;

test("an overview without any task", (t) =>
  takeSteps(
    t,
    {
      "keeps its form while the first task is refused, and shows a command that posts one": pastes,
    },
    { toml: SEVERAL_TYPES },
  ));

function panelOf(page: Page) {
  return page.getByRole("region", { name: /^No (?:accepted )?task yet$/ });
}

async function pastes(t: TestContext, daemon: TestDaemon): Promise<void> {
  if (!areAtHand(t, [{ program: "curl", debianPackage: "curl" }])) return;
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  const panel = panelOf(page);
  await panel.getByRole("button", { name: "New task…" }).waitFor();
  const isSame = await mark(page);
  await panel.getByRole("button", { name: "New task…" }).click();
  const dialog = page.getByRole("dialog");
  const url = dialog.getByLabel("Postback URL");
  await url.fill("http://10.0.0.7/hook");
  await dialog.locator("[type=submit]").click();
  await dialog.locator("[aria-invalid=true]").waitFor();
  await panel.locator("a[href^='/dashboard/tasks?']").waitFor();
  assert.equal(await url.inputValue(), "http://10.0.0.7/hook");
  await page.keyboard.press("Escape");

  const answer = await paste((await panel.locator("pre").textContent()) ?? "", daemon);

  assert.match(answer, /"status_code":20100/);
  assert.match(answer, /"type":"copy"/);
  await panel.waitFor({ state: "detached" });
  await isSame();
  await page.close();
}

/** Runs the command in a shell with the key. Returns its output. */
async function paste(command: string, { account }: TestDaemon): Promise<string> {
  const env = { ...process.env, KEY: account.key };
  const child = spawn("sh", ["-ec", command], { env, stdio: ["ignore", "pipe", "ignore"] });
  const out = text(child.stdout);
  await once(child, "close");
  return out;
}

test("an operator without accounts sees how to create one, and then how to post", async (t) => {
  if (!hasBrowser(t)) return;
  const program = startProgram(t, ["start", "--port", "0"]);
  const { url, db } = await program.ready;
  const { page } = await openPage(t, url);
  await signInAsOperator(page, { url, file: db });
  const panel = panelOf(page);
  await panel.getByRole("link", { name: "under Accounts" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "New task…" }).count(), 0);
  const command = (await panel.locator("pre").textContent()) ?? "";
  const [name, ...args] = command.split(" ");
  assert.deepEqual([name, args.at(-1)], ["postbackd", "LOGIN"]);

  const { code, stderr } = await runProgram(t, [...args.slice(0, -1), "ada"], { cwd: program.cwd });

  assert.equal(code, 0, stderr);
  await panel.getByRole("button", { name: "New task…" }).waitFor();
  await panel.getByText("one of the account's API keys").waitFor();
  await page.close();
});
