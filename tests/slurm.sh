#!/usr/bin/env bash
# A cluster of Slurm with one node, this machine, for tests; needs root, and Debian's packages:
#
#   apt-get install slurmctld slurmd slurm-client munge
#   tests/slurm.sh start FOLDER    starts it, with its state and logs in FOLDER
#   export SLURM_CONF=FOLDER/slurm.conf
#   tests/slurm.sh stop FOLDER     ends it
set -euo pipefail
folder=$(realpath -m "${2:?which folder?}")
host=$(hostname -s)

start() {
    mkdir -p "$folder/state" "$folder/spool" /run/munge
    chown munge: /run/munge
    pgrep -x munged >/dev/null || runuser -u munge -- /usr/sbin/munged
    cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobRequeue=1
ReturnToService=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=2000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
    export SLURM_CONF=$folder/slurm.conf
    slurmctld -f "$SLURM_CONF"
    slurmd -f "$SLURM_CONF"
    for _ in $(seq 60); do
        if sinfo --noheader --states=idle 2>/dev/null | grep -q .; then
            return
        fi
        sleep 1
    done
    echo "error: the node is not ready; see $folder/slurmd.log" >&2
    exit 1
}

stop() {
    for daemon in slurmd slurmctld; do
        kill "$(cat "$folder/$daemon.pid")" || true
    done
}

"${1:?start or stop?}"
