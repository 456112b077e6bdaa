import { exerciseServer } from "./server-peer.ts";
import { WEBHOOK } from "./webhook.ts";

exerciseServer(WEBHOOK);
