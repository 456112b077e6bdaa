import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import { verifyPostback } from "../../src/verify.ts";
import { tempFolder, type TestDaemon } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { areAtHand, OWN_ADDRESS, startPeer } from "../peers/peer-process.ts";
import { hasBrowser, openPage, signIn } from "./browser.ts";
import { signInAsOperator, takeSteps } from "./visit.ts";

const TOML = `[webhooks]\nallow = ["${OWN_ADDRESS}"]\n`;

test("the first steps", (t) =>
  takeSteps(
    t,
    {
      "each ticks itself off as its commands are pasted, to the last, and then they are gone":
        takesFirstSteps,
    },
    { toml: TOML },
  ));

async function takesFirstSteps(t: TestContext, daemon: TestDaemon): Promise<void> {
  const programs = ["curl", "python3"];
  if (
    !areAtHand(
      t,
      programs.map((program) => ({ program, debianPackage: program })),
    )
  )
    return;
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  const steps = page.getByRole("region", { name: "First steps" });
  await steps.getByText("0 of 5 done").waitFor();

  await paste(await shown(page, "task_post"), daemon);
  await isDone(page, "1. Post a task");
  await isDone(page, "2. It runs");
  await steps.getByText("2 of 5 done").waitFor();

  const at = { host: OWN_ADDRESS, port: await findFreePort(OWN_ADDRESS) };
  const here = (command: string): string =>
    command
      .replaceAll(/127\.0\.0\.1:9000/g, `${at.host}:${at.port}`)
      .replaceAll(/\("127\.0\.0\.1", 9000\)/g, `("${at.host}", ${at.port})`);
  const heard = join(tempFolder(t), "heard.txt");
  const receiver = `exec ${here(await shown(page, "http.server"))} >'${heard}'`;
  await startPeer(t, { ...at, files: {}, command: ["sh", "-c", receiver] });
  await paste(here(await shown(page, "postback_url")), daemon);
  await isDone(page, "3. Start a receiver and send a result to it");
  await isDone(page, "4. It is delivered: verify its signature");
  await steps.getByText("4 of 5 done").waitFor();
  await assertVerifies(readFileSync(heard, "utf8"), daemon);

  const collect = await shown(page, "task_get");
  assert(!collect.includes("TASK_ID"));
  await paste(collect, daemon);
  await steps.waitFor({ state: "detached" });
}

/** The command on the page that has this in it. */
async function shown(page: Page, part: string): Promise<string> {
  const command = page.locator("pre", { hasText: part });
  return (await command.textContent()) ?? "";
}

async function isDone(page: Page, title: string): Promise<void> {
  const step = page.getByRole("listitem").filter({ hasText: title });
  await step.getByText(": done").waitFor({ state: "attached" });
}

/** Does what the page says, in a shell that knows the key; gives the answer. */
async function paste(command: string, { account }: TestDaemon): Promise<string> {
  const env = { ...process.env, POSTBACKD_KEY: account.key };
  const child = spawn("sh", ["-ec", command], { env, stdio: ["ignore", "pipe", "pipe"] });
  const [out, err] = [text(child.stdout), text(child.stderr)];
  await once(child, "close");
  assert.match(await out, /"status_code":20000/, `${command}\n${await out}\n${await err}`);
  return out;
}

/** Checks the signature of what the receiver printed: headers, an empty line, and the body. */
async function assertVerifies(heard: string, { account }: TestDaemon): Promise<void> {
  const [, signature = ""] = /^X-Signature: (.*)$/im.exec(heard) ?? [];
  const [, body = ""] = /\n\n (.*)\n$/s.exec(heard) ?? [];
  assert.match(body, /"hello": *"world"/);
  assert(await verifyPostback(body, signature, account.secret), heard);
}

const SEVERAL_TYPES = `
[types.transcode]
runner = "worker"
[types.copy]
runner = "echo"
${TOML}`;

test("the first steps of an account on a daemon with several types", (t) =>
  takeSteps(
    t,
    {
      "a task that task_post refuses ticks off none, and the shown command names a type":
        postsNamedType,
      "an account is told to ask the operator for what only the operator can do": asksOperator,
    },
    { toml: SEVERAL_TYPES },
  ));

async function postsNamedType(t: TestContext, daemon: TestDaemon): Promise<void> {
  if (!areAtHand(t, [{ program: "curl", debianPackage: "curl" }])) return;
  const refused = await daemon.post([{ input: { hello: "world" } }]);
  assert.equal(refused.tasks[0]?.status_code, 40501);
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  const steps = page.getByRole("region", { name: "First steps" });
  await steps.getByText("0 of 5 done").waitFor();

  const command = await shown(page, "task_post");
  assert.match(command, /-d '\{"type": "copy", "input"/);
  await steps.getByText("This daemon also has transcode.").waitFor();
  assert.match(await paste(command, daemon), /"status_code":20100/);
  await isDone(page, "1. Post a task");
  await isDone(page, "2. It runs");
  await steps.getByText("2 of 5 done").waitFor();
  assert.match(await shown(page, "postback_url"), /-d '\{"type": "copy", "input"/);
  await page.close();
}

async function asksOperator(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  const steps = page.getByRole("region", { name: "First steps" });
  await steps.getByText("ask the operator to allow").waitFor();
  await steps.locator("summary", { hasText: "It runs" }).click();
  await steps.getByText("The operator of this daemon decides").waitFor();

  const advice = (await steps.textContent()) ?? "";

  assert.doesNotMatch(advice, /postbackd start|--allow-target|config init/);
  await page.close();
}

test("for the operator the first steps begin with an account, that the shown command makes", async (t) => {
  if (!hasBrowser(t)) return;
  const program = startProgram(t, ["start", "--port", "0"]);
  const { url, db } = await program.ready;
  const { page } = await openPage(t, url);
  await signInAsOperator(page, { url, file: db });
  const steps = page.getByRole("region", { name: "First steps" });
  await steps.getByText("0 of 6 done").waitFor();
  const [name, ...args] = (await shown(page, "account create")).split(" ");
  assert.deepEqual([name, args.at(-1)], ["postbackd", "LOGIN"]);
  await steps.locator("summary", { hasText: "Start a receiver" }).click();
  assert.match(await shown(page, "--allow-target"), /^postbackd start /);
  const { code, stderr } = await runProgram(t, [...args.slice(0, -1), "ada"], { cwd: program.cwd });
  assert.equal(code, 0, stderr);
  await isDone(page, "1. Make an account");
  await steps.getByText("1 of 6 done").waitFor();
  await page.close();
});
