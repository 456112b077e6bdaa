import type { Config } from "../config/config.ts";
import type { Logger } from "../domain/log.ts";

/** Logs every decision of the operator that takes protection away: at every start, each by its name. */
export function warnOfRisks(
  { webhooks, insecureHttp, host }: Config,
  { log, env }: { readonly log: Logger; readonly env: NodeJS.ProcessEnv },
): void {
  for (const target of webhooks.allow) {
    log.warn({ target }, "webhooks may go to this target, public or not (webhooks.allow)");
  }
  if (insecureHttp) {
    log.warn(
      { host },
      "plain HTTP is accepted beyond loopback: keys travel readable (insecure_http)",
    );
  }
  if (env["NODE_TLS_REJECT_UNAUTHORIZED"] === "0") {
    log.warn(
      {},
      "NODE_TLS_REJECT_UNAUTHORIZED=0 is set: webhooks check certificates nevertheless; " +
        "take it out of the environment, command runners inherit it",
    );
  }
}
