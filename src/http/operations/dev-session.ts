import type { DevDesk } from "../dev-desk.ts";
import { defineOperation, type Operation } from "../operation.ts";

/** Makes a link as the command line does, for whoever reaches the daemon: it is theirs anyway. */
export function devSignInLink({ makeSignInToken }: DevDesk): Operation {
  return defineOperation("POST /dev/sign_in_link", {
    access: "developer",
    doc: {
      id: "makeSignInLink",
      group: "Development",
      summary: "Make a link to sign in with",
      description:
        "For the dashboard, whose session is over as soon as the clock is advanced beyond its end.",
    },
    async handle(call) {
      return { fields: { token: await makeSignInToken(call.audit("session.link_made", null)) } };
    },
  });
}
