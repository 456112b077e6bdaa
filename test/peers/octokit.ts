import { verify } from "@octokit/webhooks-methods";

import type { SignaturePeer } from "./signature-peer.ts";

/** What GitHub's own library verifies webhooks with: X-Signature has the form of X-Hub-Signature-256. */
export const OCTOKIT: SignaturePeer = {
  name: "@octokit/webhooks-methods",
  programs: [],
  judge: (claims) =>
    Promise.all(
      claims.map(({ secret, message, signature }) => verify(secret, message.toString(), signature)),
    ),
};
