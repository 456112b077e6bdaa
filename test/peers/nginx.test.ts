import { NGINX } from "./nginx.ts";
import { exerciseServer } from "./server-peer.ts";

exerciseServer(NGINX);
