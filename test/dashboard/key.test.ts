import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Page } from "playwright-core";

import { createTestAccount, type TestDaemon } from "../helpers/daemon.ts";
import {
  REFUSED,
  assertEnded,
  forgive,
  goTo,
  mark,
  openPage,
  signIn,
  signInAsOperator,
  takeSteps,
} from "./browser.ts";

const KEY = /pbd_live_[\dA-Za-z]{40}/;
const SECRET = /whsec_[\w+/-]{20,}=*/;
const HOSTILE_LABEL = `"><script>alert(1)</script> ${"\u202e"}cilbup`;

test("keys and the webhook secret", (t) =>
  takeSteps(t, {
    "a new key is valid immediately and shown once, until its storage is confirmed": makesKey,
    "a revoked key is refused from the next request": revokesKey,
    "revoking the key of the session signs out": revokesOwnKey,
    "the secret is hidden until it is revealed": revealsSecret,
    "a rotation by the operator shows both secrets and the headers that they sign": rotatesSecret,
  }));

async function openKeys(t: TestContext, daemon: TestDaemon, key = daemon.account.key) {
  const opened = await openPage(t, daemon.url);
  await signIn(opened.page, { ...daemon.account, key });
  await goTo(opened.page, "Keys & secret");
  return opened;
}

async function makesKey(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openKeys(t, daemon);
  await page.getByText("1 of 20 active").waitFor();
  const key = await makeKey(page, HOSTILE_LABEL);
  const once = page.getByRole("dialog", { name: "Your new key" });
  assert.equal(await statusOf(daemon, key), 200);

  // Browsers close a dialog at the second Escape.
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await once.getByText(key).waitFor();
  const close = once.getByRole("button", { name: "Close" });
  assert(await close.isDisabled());
  await once.getByLabel("I stored it").check();
  await close.click();
  await once.waitFor({ state: "detached" });

  await page.getByText("2 of 20 active").waitFor();
  await rowOf(page, key).getByText(HOSTILE_LABEL, { exact: true }).waitFor();
  assert(!(await page.content()).includes(key));
  await page.reload();
  await rowOf(page, key).waitFor();
  assert(!(await page.content()).includes(key));
}

/** Creates a key on the page and returns it, with its dialog open. */
async function makeKey(page: Page, label: string): Promise<string> {
  await page.getByRole("button", { name: "Make a key…" }).click();
  await page.getByLabel("Label").fill(label);
  await page.getByRole("button", { name: "Make the key" }).click();
  const dialog = page.getByRole("dialog", { name: "Your new key" });
  const key = KEY.exec((await dialog.textContent()) ?? "")?.[0];
  assert(key !== undefined, "the whole key is shown");
  return key;
}

async function storeIt(page: Page): Promise<void> {
  await page.getByLabel("I stored it").check();
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
}

function rowOf(page: Page, key: string) {
  return page.getByRole("row").filter({ hasText: key.slice(-4) });
}

async function statusOf({ url }: TestDaemon, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}` };
  return (await fetch(`${url}/v1/appendix/user_data`, { headers })).status;
}

async function revokesKey(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openKeys(t, daemon);
  const key = await makeKey(page, "to be revoked");
  await storeIt(page);
  await rowOf(page, key).getByRole("button", { name: "Revoke" }).click();
  const asked = page.getByRole("dialog", { name: "Revoke" });
  await asked.getByRole("button", { name: "Keep it" }).click();
  assert.equal(await statusOf(daemon, key), 200);
  await rowOf(page, key).getByRole("button", { name: "Revoke" }).click();
  await asked.getByRole("button", { name: "Revoke the key" }).click();
  await page.getByRole("status").filter({ hasText: "is revoked" }).waitFor();

  const headers = { authorization: `Bearer ${key}` };
  const refused = await fetch(`${daemon.url}/v1/appendix/user_data`, { headers });
  assert.match(await refused.text(), /"status_code":40101/);
  await page.getByText("1 revoked").click();
  await rowOf(page, key).getByText("revoked", { exact: true }).waitFor();
}

async function revokesOwnKey(t: TestContext, daemon: TestDaemon): Promise<void> {
  const key = await newKeyOf(daemon);
  const opened = await openKeys(t, daemon, key);
  const { page } = opened;
  const isSame = await mark(page);
  await rowOf(page, key).getByRole("button", { name: "Revoke" }).click();
  const asked = page.getByRole("dialog", { name: "Revoke" });
  await asked.getByText("your session ends with it").waitFor();
  await asked.getByRole("button", { name: "Revoke the key" }).click();
  await assertEnded(page);
  await isSame();
  forgive(opened, REFUSED);
}

async function newKeyOf(daemon: TestDaemon): Promise<string> {
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
  const made = KEY.exec(await (await daemon.call("/v1/appendix/keys", init)).text())?.[0];
  assert(made !== undefined);
  return made;
}

async function revealsSecret(t: TestContext, daemon: TestDaemon): Promise<void> {
  const { page } = await openKeys(t, daemon);
  const { secret } = daemon.account;
  await page.getByText("(hidden)").waitFor();
  assert(!(await page.content()).includes(secret));
  await page.getByRole("button", { name: "Reveal the secret" }).click();
  await page.getByText(secret, { exact: true }).waitFor();
  await page.getByRole("button", { name: "Hide the secret" }).click();
  assert(!(await page.content()).includes(secret));
}

async function rotatesSecret(t: TestContext, daemon: TestDaemon): Promise<void> {
  // Another account stays unchanged.
  await createTestAccount(daemon.file, "tester-2");
  const operator = (await openPage(t, daemon.url)).page;
  await signInAsOperator(operator, daemon);
  await goTo(operator, "Accounts");
  await rotate(operator, "Rotate the webhook secret of tester", "Begin the rotation");

  const { page } = await openKeys(t, daemon);
  await page.getByText("The secret is being replaced.").waitFor();
  const [current, next] = [
    await revealed(page, "Current secret signs X-Signature", "current"),
    await revealed(page, "Next secret signs X-Signature-Next", "next"),
  ];
  assert.equal(current, daemon.account.secret);
  assert.notEqual(next, current);

  await rotate(operator, "Finish the rotation of tester", "Finish the rotation");
  await page.reload();
  const only = await revealed(page, "Secret signs X-Signature and webhook-signature", "");
  assert.equal(only, next);
}

async function rotate(operator: Page, name: string, verb: string): Promise<void> {
  await operator.getByRole("button", { name, exact: true }).click();
  await operator.getByRole("dialog").getByRole("button", { name: verb }).click();
  await operator.getByRole("dialog").waitFor({ state: "detached" });
}

async function revealed(page: Page, heading: string, which: string): Promise<string> {
  const name = which === "" ? "Reveal the secret" : `Reveal the ${which} secret`;
  await page.getByRole("button", { name, exact: true }).click();
  const secret = page.locator("div", { has: page.getByRole("heading", { name: heading }) }).last();
  const shown = SECRET.exec((await secret.textContent()) ?? "")?.[0];
  assert(shown !== undefined);
  return shown;
}
