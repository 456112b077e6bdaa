import { SIGN_IN_LINK_MS } from "../domain/account/session.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import { defineAdminCommand } from "./admin-command.ts";
import { CommandFailure } from "./failure.ts";

export const linkCommand = defineAdminCommand({
  description: "Make a link that signs the operator in at the dashboard, once",
  example: "postbackd admin link",
  notes:
    "Whoever opens it first is the operator there for up to 12 hours. It leads to public_url where that is set, else\n" +
    "to the running daemon.",
  args: {},
  settings: ["public-url"],
  mayCreate: true,
  async run(_given, { store, config, audit }) {
    // Loaded here, because the help needs none of it.
    const { createSignInLink, findDashboard } = await import("../daemon/link.ts");
    if (!config.dashboard) {
      throw new CommandFailure(
        "the dashboard is switched off; take dashboard = false out of the configuration, or POSTBACKD_DASHBOARD out of the environment",
      );
    }
    const place = await findDashboard(config, systemClock);
    if (place === null) {
      throw new CommandFailure(
        `nobody serves ${config.database}, and with port 0 it is not known where it would be; start the daemon first, or give --public-url`,
      );
    }
    const { url, expiresAt } = await createSignInLink(place.url, {
      store,
      clock: systemClock,
      audit: audit("session.link_made", null),
    });
    const minutes = SIGN_IN_LINK_MS / 60_000;
    const start = "No daemon answers there yet: start it with 'postbackd start' first.";
    return {
      document: { link: { url, expires_at: timeText(expiresAt) } },
      lines: [
        url,
        "",
        `Open it within ${minutes} minutes: it signs you in as the operator, and works once.`,
        ...(place.isServed === false ? [start] : []),
      ],
    };
  },
});
