/** Tests of the API that are not asked of several daemons behind a balancer, and why. */
export interface Exception {
  readonly reason: string;
  /** By the files below test/: the names of their tests, or all of them. */
  readonly tests: Readonly<Record<string, readonly string[] | "all">>;
}

export const NOT_ON_CLUSTER: readonly Exception[] = [
  {
    reason:
      "it goes by a clock of the test's, to the millisecond; that of a cluster is the server's",
    tests: {
      "http/access-requests.test.ts": [
        "a request for access needs no key and is stored exactly as it was sent",
        "the twenty-first request of an address in an hour is 42900, and after the hour it is fine",
        "what was refused for its fields does not count",
        "behind a trusted proxy each client has its own limit, of IPv6 each /64",
        "a /48 of IPv6 has five times the requests of an address, however many /64s ask",
        "when ten thousand requests wait for the operator the oldest gives way after a day",
        "without a trusted proxy nobody talks himself out of the limit",
      ],
      "http/answer-memory.test.ts": [
        "who does not read his answers gets no more of them, and nobody else is held up",
      ],
      "http/body-memory.test.ts": [
        "large bodies wait until there is room for all of them, and small ones do not",
        "a body in chunks is read to its end as soon as there is room",
      ],
      "http/cursor.test.ts": [
        "a cursor says nothing: its bytes are of one length and other ones at each place, however much others do",
        "a cursor of another account, of another list or of the operator is 40000, as one that is forged",
        "the operator goes on with an account's list in its name, and the account with the operator's",
        "a cursor is good after a restart of the daemon",
        "a cursor whose last task was erased meanwhile goes on behind it",
        "a cursor that an earlier release gave out is 40000",
      ],
      "http/deliveries.test.ts": [
        "shows an attempt that was delivered with all that the contract lists",
        "shows when the next attempt is due, and makes it due now when asked",
        "sends what was delivered again as a fresh series, with the same id and a new signature",
        "gives what was given up a whole new series of retries",
        "judges a refused delivery anew when it is sent again",
        "shows the last 100 attempts of a delivery that is sent again and again",
        "a task is sent again thirty times a minute and no more, whatever becomes of others",
        "the audit keeps a hundred redeliveries of an account an hour, and every one is sent",
        "an account with as many bytes as it may have sends nothing again, and is told what to do",
        "lists the attempts of all tasks from a cursor on, and finds one again that had not started",
      ],
      "http/entity-tag.test.ts": [
        "every finished task has a strong tag of its own, and an unfinished one has none",
      ],
      "http/events.test.ts": [
        "a stream of a key that is revoked ends, and another one goes on",
        "the operator's stream tells of every account, and ends when its session does",
        "a stream keeps no session alive, and ends with it when nobody does anything",
        "what is read after a change was told has that change in it, however soon",
        "a stream that comes back is told nothing that it knows",
        "a stop ends the streams and does not wait for them",
        "a client that hangs up in whatever way leaves nothing behind",
        "a request behind a stream on its connection waits, and is served when the stream has ended",
      ],
      "http/idempotency.test.ts": [
        "the same key and body is answered byte for byte as the first time, and makes no task",
        "a key is kept for 24 hours from its first use, replays or none, and is free after that",
        "the sweep erases what is kept for longer than 24 hours, and nothing younger",
        "a key that stood for tasks that are erased by now is free again, and its tasks are new",
      ],
      "http/keys.test.ts": [
        "a new key is shown whole once, with what listings show of it, and works at once",
        "an account makes a hundred keys an hour, and revoked ones are erased after the retention",
        "revoking a key again answers the same, also when time has gone by",
      ],
      "http/late-answer.test.ts": [
        "a wait whose key was revoked meanwhile is answered like the next request, and collects nothing",
        "a wait in vain whose key was revoked meanwhile is refused too",
        "a wait whose account was disabled meanwhile is answered like the next request, and collects nothing",
        "a wait in vain whose account was disabled meanwhile is refused too",
        "a wait whose session ended meanwhile is 40100, and takes the cookie away",
        "a wait of the operator whose session ended meanwhile is 40100",
        "a body that takes its time counts only if its key is still good when it is whole",
      ],
      "http/limits.test.ts": [
        "every answer to an account says what its limit is and what is left of it",
        "a request too many is 42900 with the time to wait, and when that is over it is served",
        "the limit is the account's: all its keys share one, and other accounts have theirs",
        "a refused request leaves its connection in order, its unread body too",
        "public operations and refused credentials neither count nor tell of the limit",
        "no limit is set unless the operator sets one, and then no header speaks of it",
        "the 301st refused credential of an address in a minute is 42900, and valid keys pass all the while",
        "a missing, malformed or unknown key and another login count as failed authentications",
        "an address at its limit of failures still gets 40101 for a revoked key and 40102 for a disabled account",
        "thousands of requests with a revoked key do not lock their address out, and are one line of the log",
        "refused credentials of one address are not held against another, of IPv6 the /64 is one",
        "where that limit is 0 every refusal is told as it is",
        "the body's limit is the operator's, to the byte",
        "how many tasks a task_post takes is the operator's",
      ],
      "http/long-bodies.test.ts": [
        "a long body is answered as a short one that says the same, whatever is wrong with it",
      ],
      "http/openapi.test.ts": [
        "the document has every operation of the table and no other",
        "an operation asks for credentials exactly where the document says so, by the schemes that it says",
        "every status code stands in the table of codes, and wherever it may be met",
        "every request of the document works on things that exist, and its answer fits",
        "what the document says of an answer holds for finished things and for unknown ones",
        "a second request with the ETag of the first is answered as the document says of 304",
        "the answers to requests that cannot be served fit the document",
        "the answers to refused credentials fit the document",
        "the answers to too many requests, and those before, fit the document",
        "the answers of a daemon that is full, or behind a proxy without TLS, fit the document",
        "webhooks are as their callbacks say, also while the secret rotates",
        "the callbacks say when webhooks are tried again: by default",
        'the callbacks say when webhooks are tried again: [webhooks]\ntimeout = "1500ms"\nretry_after = ["60s", "25h", "2d", "90s"]',
        'the callbacks say when webhooks are tried again: [webhooks]\ntimeout = "1s"\nretry_after = ["1h"]',
        "the callbacks say when webhooks are tried again: [webhooks]\nretry_after = []",
      ],
      "http/operator-accounts.test.ts": [
        "an account that is disabled says what it holds, in the answer and in the list, and goes on when it is enabled",
      ],
      "http/operator-delivery-pauses.test.ts": [
        "nothing goes out to a host that is paused, what waits is counted, and it goes out after the resume",
      ],
      "http/operator-nodes.test.ts": [
        "a daemon with a file of its own is the one node, with every role and what it runs",
      ],
      "http/operator-runners.test.ts": [
        "every type is listed with what runs it, and with nothing that may be a secret",
        "what waits and what runs is counted by type, with the age of what has waited longest",
        "a type has no worker while tasks wait for it and none was heard within a minute",
        "workers that wait at the desk are counted while they wait",
        "workers are listed with what is known of them, and nothing of their tokens but the end",
      ],
      "http/quotas.test.ts": [
        "an account with as many open tasks as it may have is 42900 for what is one more, and others are not",
        "an account with as many bytes as it may have is 50700, results are kept, and retention makes room",
        "a hundred posts at once bring an account to its limit and no further, over a restart too",
        "a limit of an account's own counts from the next request on, and so does taking it back",
        "an answer that was kept for an Idempotency-Key is repeated whatever the account has",
        "posted tasks are counted by the minute, a whole post or nothing of it",
        "an account may take half of the room for data while there is another, and all of it while there is none",
        "the operator's list and the account itself show the same limits and use, the account's own before all others'",
        "a limit of an account's own counts for its sessions, and the operator posts for it within its quota",
      ],
      "http/redeliveries.test.ts": [
        "a preview counts what has failed: of an account its own, of the operator all or one's",
        "an order sends again what is its account's, and nobody else's",
        "a slow order of one account does not hold up another's",
        "an account has one open order at a time and fifty a second at most; the operator has neither bound",
        "an account neither sees nor cancels what is not for it, and does both with the operator's for it",
        "no word of a body reaches beyond the account",
        "what a filter cannot be is refused with the field",
        "an order that the command line gave is shown beside the others",
        "thirty orders a minute are an account's share",
        "an account with as many bytes as it may have orders nothing, and the operator still may for it",
      ],
      "http/reference.test.ts": [
        "marketplaces are shown as the file has them, in its order, with all their keys",
        "without marketplaces the list is empty, and no task may name one",
        "a task's marketplace is one of the list, compared exactly",
        "status_codes is the table that the answers are made from, row by row",
        "/v1/appendix/marketplaces has an ETag and says how long it keeps, and a client that has it is answered 304",
        "/v1/appendix/status_codes has an ETag and says how long it keeps, and a client that has it is answered 304",
        "/v1/appendix/status has an ETag and says how long it keeps, and a client that has it is answered 304",
        "the tag is the same after a restart, and another for another list",
        "public operations look at no Authorization, however malformed",
        "a query that a reference does not know is 40000, and a method that it has not 40500",
        "a service that has just started is operational",
        "runners are degraded while a task has waited for more than a quarter of an hour",
        "a task that is not to start before tomorrow is no queue",
        "runners are down while every run fails, degraded while half do, and forgive after minutes",
        "webhooks are down when no receiver takes anything, and one broken receiver is no outage",
        "an answer is at most a second old, and within that second nothing is looked up anew",
      ],
      "http/request-turns.test.ts": [
        "a request that is sent ahead has no effect before the one in front of it is answered",
        "a thousand waits sent ahead on one connection wait one after the other",
        "what a client sent ahead is not done when it has gone before its turn",
        "a stop breaks off the requests that are not answered within 18 s",
      ],
      "http/session.test.ts": [
        "an account signs in with its login and a key, and is told who it is and until when",
        "the cookie is out of reach of scripts and other sites, and only its hash is kept",
        "signing in counts as a use of the key, and what its session does as none",
        "the operator signs in with a link, for all accounts or, by X-Account, for one of them",
        "the operator acts for an account that is disabled too",
        "X-Account means nothing from anybody but the operator",
        "what is the operator's is 40301 to accounts, by key and by session, and 40100 to nobody",
        "wrong credentials sign nobody in, by the codes of the contract, and open no dialog",
        "a link works once, before it expires, and of many at the same time for one alone",
        "an account signs in a hundred times an hour, and others all the while",
        "a session that nobody uses for half an hour is over, and use keeps it",
        "what the page asks by itself keeps no session alive, and is served",
        "after twelve hours a session is over, however much it is used",
        "a session and a link that were made while the clock was far ahead are over when it is set right",
        "when a session was last used is kept across a restart",
        "when it was last used is written once a minute, and never more often",
        "signing out ends the session and takes the cookie away; again is the same",
        "a session ends on the next request after its key was revoked by another process",
        "a session ends with its account at once, and stays ended when that is enabled again",
        "who revokes the key of its own session is signed out by that",
        "of one key twenty sessions last at once; one more ends the oldest",
        "a refusal names no Basic to the page's own code, and both schemes to everybody else",
        "workers' operations and public ones look at no cookie",
        "no cookie, token or key of a sign-in is ever logged or answered",
      ],
      "http/stats.test.ts": [
        "an account that has done nothing sees zeros, and nothing to attend to",
        "what is posted, delivered, retried and collected is counted where it happened",
        "what is given up is told until it is sent again, also when that was a day ago",
        "when everything is recovered, nothing is undelivered of any host",
        "the overview is decided anew when it is a second old, for each account",
        "a task that waits for more than a minute is told, and one that is delayed is not",
        "the operator is told what to do, and an account what to ask for, at the same moment",
        "a missing worker is one point of attention for each viewer, without advice about concurrency",
        "the operator sees all accounts together, what only the operator can mend, and one account by its name",
        "an account with nearly as many keys as it may have is told to revoke some",
        "a series has a bucket for every step, in steps that fit what was asked for",
        "a series of no time, or of too much, is refused with what may be asked",
        "hosts are shown for as long as things are kept, and no longer",
      ],
      "http/storage.test.ts": [
        "a full database takes in nothing new, and says so to clients, probes and the operator",
        "what is wrong with a post is told before that there is no room",
        "what was taken in before runs, is delivered and can be read while there is no room",
        "keys can be made and tasks cancelled while there is no room; access cannot be asked for",
        "an answer that was kept for an Idempotency-Key is repeated while there is no room",
        "when retention has made room the very first post is taken in again",
        "the first post after the database has filled up is refused, however long nobody asked",
        "a disk with too little room is said once, not for every request",
        "while more of the disk is free than limits.disk_free tasks are taken in, and while less is none",
        "without quota and floor nothing is too large",
        "while the last write found no room /readyz says no, whatever the floor is, and then all goes on",
        "what is in flight while there is no room waits, is told by few lines, and is recorded afterwards",
      ],
      "http/task-cancel-many.test.ts": [
        "cancels what passes all filters, and nothing that fails one of them",
      ],
      "http/task-cancel.test.ts": [
        "a delayed task that is cancelled does not run when its time comes",
        "the answer does not wait for a program that ignores SIGTERM, which is killed after 5 s",
        "a cancelled task shows when it ended and until when it is kept, with what was posted, and stays so",
        "an id from before the retention period is 40403, that of an erased task too",
        "a task that waits for its retry can be cancelled, and the retry does not come",
        "a client that waits for the task is told of its cancellation at once",
      ],
      "http/task-get.test.ts": [
        "a malformed id is answered like an unknown one, character for character",
        "an unknown id from before the retention period is 40403, and one from within it 40401",
      ],
      "http/task-list.test.ts": [
        "each filter and all of them together give what passes them, newest first, on one page and on many",
        "a task is listed as task_get shows it, without input, result and error",
        "created_after is inclusive and created_before is exclusive, to the millisecond",
        "a time may have an offset, whose + is written %2B; a bare + is a space and 40000",
        "pages of tasks that were made in one millisecond lose none and repeat none",
      ],
      "http/task-wait.test.ts": [
        "the answer is held until the task has ended, and is that of an ended task",
        "when the time is over the answer is the task as it is, and nothing is collected",
        "wait=0 answers at once, and a request that does not wait says nothing of it",
        "a wait that is no whole number of seconds up to 60 is 40000, for a task that has ended too, and collects nothing",
        "other preferences are passed over, on the same line, on others and within quotes",
        "a client that hangs up while it waits is forgotten, and its task is not collected",
        "many waits one after the other on one connection leave nothing behind",
        "a stop lets all that wait have their answers at once",
        "HEAD waits like GET, has no body and collects nothing",
        "five hundred that wait for one task are all answered when it ends",
        "nothing is waited for where nothing more will happen",
        "a run that fails and is to be tried again ends no wait; the last one does",
        "a wait ends with 40102 within a second of its account being disabled, by whichever process",
        "a wait ends within a second of its task being cancelled or erased before it was started, by whichever process",
      ],
      "http/tasks-ready.test.ts": [
        "pages are complete when every task finished in the same millisecond",
      ],
      "http/user-data.test.ts": [
        "shows the account with everything that the contract names, and nothing else",
        "shows the contract's defaults where nothing is configured",
        "shows an account only what is its own",
        "HEAD says the same without a body, and a query parameter is refused",
        "lists every active key, and of the revoked ones the hundred that were revoked last, oldest first",
        "a rotation by another process is shown with its next secret, until it is finished",
        "the use of a key is shown at once and is in the file a minute later, however often it is used",
        "uses are written at a stop, and shown by the next daemon",
        "only requests that a key opened count as its use",
        "a use that is not in the file yet is shown by a revocation too",
        "the last use does not go back when the clock is set back",
        "tasks are counted by state through all their life, refused, delayed, cancelled and erased ones too",
      ],
      "http/worker-auth.test.ts": [
        "when a worker was last heard is kept, at the latest when the daemon stops; a refused one is not",
      ],
      "http/worker-flow.test.ts": [
        "a task goes the whole way: posted, claimed, kept, completed, and got",
        "a claim waits as long as it was asked to, to the millisecond, and then comes back empty",
      ],
      "http/worker-leases-foreign.test.ts": [
        "a lease of another worker answers lost like an unknown one, and nothing comes of it",
        "a lease of another worker answers lost when it has ended, ran out or was cancelled too",
        "a token made anew under the name of a revoked one does not hold its leases",
      ],
    },
  },
  {
    reason:
      "it is about the bytes of a connection or what one daemon holds of it; the balancer stands between",
    tests: {
      "http/body.test.ts": [
        "takes a body of exactly the limit and refuses one byte more, with its length declared",
        "answers a declared length over the limit before a byte of the body has come",
        "a client that sends far more than it may still gets to read why it was refused",
        "a client that sends a body that is too long to the end can read the refusal",
        "a client that sends a body in chunks that is too long to the end can read the refusal",
        "a client that sends a body in too many chunks to the end can read the refusal",
        "a client that sends a body that is not JSON on a connection for one request to the end can read the refusal",
        "a client that sends headers that are too long to the end can read the refusal",
        "a client that goes on and on after a refusal is disconnected",
        "a client that sends nothing more after a refusal is disconnected",
        "refused clients that stay connected take no places, and the oldest of 65 is disconnected",
      ],
      "http/wait-bounds.test.ts": [
        "an account that waits with every connection of its address leaves half of them to others",
      ],
      "http/connections.test.ts": [
        "closes the longest idle connection for a new one when places run out",
        "ends a connection that has sent nothing when limits.header_timeout is over",
        "ends a connection in the middle of a request line when limits.header_timeout is over",
        "ends a connection in the middle of its headers when limits.header_timeout is over",
        "ends a connection whose body does not come within limits.request_timeout",
        "does not count the time between two requests against the second",
      ],
      "http/every-operation.test.ts": [
        "a request that can be read in two ways is answered once by every operation, and its connection closed",
      ],
      "http/order-of-checks.test.ts": [
        "of several broken rules the first in the contract's order is the one that is named",
        "a method is compared exactly: `post` is none that there is",
        "every answer has a request id of its own, errors and kept connections included",
      ],
      "http/raw-requests.test.ts": "all",
      "http/session-attack.test.ts": [
        "a hostile Cookie header is no session, and costs nobody anything",
      ],
    },
  },
  {
    reason: "it looks into the daemon's file",
    tests: {
      "http/hostile.test.ts": "all",
      "http/idempotency.test.ts": [
        "an answer that is not HTTP 200 is not kept: the mended post may have the same key",
      ],
    },
  },
  {
    reason: "each daemon counts its part of the limit",
    tests: {
      "http/audit.test.ts": [
        "refused sign-ins are in the audit, a number of them, and nothing of what was given but a login",
      ],
      "http/events.test.ts": [
        "an eleventh stream of a key is 42900, until one of the others is hung up",
      ],
      "http/metrics.test.ts": [
        "wrong tokens for metrics count as refused credentials of their address, and never hold up the right one",
      ],
      "http/proxies.test.ts": [
        "counts refused credentials by the address that a trusted proxy names",
        "does not let a client choose the address that it is counted by",
      ],
      "http/session.test.ts": [
        "a session's requests count for its account's limit, and the operator's for none",
        "attempts to sign in are counted as refused credentials are, and the right key passes all the while",
      ],
      "http/worker-auth.test.ts": [
        "unknown tokens count for their address, and never hold up a valid or a revoked one",
      ],
    },
  },
  {
    reason: "the daemon serves TLS itself, which the balancer does not speak",
    tests: {
      "http/answer-headers.test.ts": [
        "a daemon that serves HTTPS itself says so too, but not of localhost, whose ports are everybody's",
      ],
      "http/session-attack.test.ts": [
        "over TLS of its own the cookie is the host's alone and Secure, and is taken back",
      ],
    },
  },
  {
    reason:
      "the balancer drops a response if it cannot send on the rest of the body that the daemon has refused",
    tests: {
      "http/body.test.ts": [
        "a body of small chunks without an end is refused before limits.request_timeout",
        "a malformed chunk in a body without an end is refused before limits.request_timeout",
      ],
      "http/body-memory.test.ts": [
        "of chunks that come at once more are refused with 40000, and the parser that dropped them reads the next body",
      ],
    },
  },
  {
    reason: "it sends hundreds of requests, of which each daemon refuses most by itself",
    tests: {
      "http/every-body.test.ts": "all",
      "http/every-operation.test.ts": [
        "every spelling of a path that is not the path is 404, and what means the same is the same",
        "a query parameter that is unknown, given twice or not well encoded is 40000",
        "a query parameter whose value breaks its rule is 40000, and is never clamped",
        "no Host header changes what a key or nobody is answered, and none or two of them are 40000",
        "a body that an operation does not take changes nothing, whatever it is and however it comes",
        "a body that is promised and comes after the answer is not taken for a request",
        "of a header that counts once two are refused by who reads it, and passed over by everybody else",
        "what a peer that is no trusted proxy forwards changes no answer and no limit",
        "of any two faults the one that the contract looks for first is named, for every operation",
      ],
    },
  },
  {
    reason: "each daemon has a log of its own, and the order of two is nobody's promise",
    tests: {
      "http/access-log.test.ts": [
        "at debug level the way of a task can be followed by its id",
        "failed attempts to one host are one line at info, and a line each at debug",
      ],
    },
  },
  {
    reason: "it is about one daemon: its stop, what it knows of itself, or its next start",
    tests: {
      "http/access-log.test.ts": [
        "log.requests has a line for each request, with nothing in it that a client chose",
        "refused credentials are one line for an address and a minute, with their number",
      ],
      "http/metrics.test.ts": [
        "what happens is counted: requests, tasks, runs, deliveries, commits",
        "scrapes within a second share one rendering, and the next one is new",
      ],
      "http/failures.test.ts": [
        "a stop lets a request that is under way have its answer, and takes no task from it",
      ],
      "http/operator-system.test.ts": [
        "after a reload the settings in force are shown, and what was changed beside them waits for a restart",
        "the system is shown as it is",
        "settings are shown with their sources, as text, and none of them is a secret",
        "the log's last lines are shown, and no query of a webhook's URL is among them, nor any key",
      ],
      "http/worker-flow.test.ts": [
        "what a worker has sent before a stop is still taken, and a heartbeat says that the daemon stops",
      ],
    },
  },
  {
    reason: "it counts the runs of a type, whose `concurrency` is each daemon's own",
    tests: {
      "http/task-cancel.test.ts": [
        "a queued task that is cancelled never runs, and those behind it do",
      ],
    },
  },
  {
    reason: "its order is that of the daemons' clocks, which differ by milliseconds",
    tests: {
      "http/task-list.test.ts": [
        "what was there when the paging began comes once, while tasks are posted, finish and are cancelled",
      ],
    },
  },
  {
    reason: "one daemon shows the progress that another was told only some moments later",
    tests: {
      "http/worker-flow.test.ts": [
        "progress is shown while a task runs, in lists too, and never in what it was",
        "the progress of a run is gone with it: the next run begins with none",
      ],
    },
  },
  {
    reason:
      "the nodes are heard between its two requests, and what is shown of them is longer then",
    tests: { "http/every-operation.test.ts": ["HEAD answers as GET does, without a body"] },
  },
];
