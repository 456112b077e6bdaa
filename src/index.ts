/** What `import … from "postbackd"` gives. */
export { verifyPingback, verifyPostback } from "./verify.ts";
export type { RawBody, SignatureHeader, WebhookSecrets } from "./verify.ts";
