import { HAPROXY } from "./haproxy.ts";
import { exerciseServer } from "./server-peer.ts";

exerciseServer(HAPROXY);
